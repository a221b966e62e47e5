"""Requests of every type, grouped, batched and stopped in every way lm-eval knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.methods import REGISTRY
from tests.lm.by_hand import asked, continuation, score
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle

LAYER = 1
DOCUMENTS = 6
STEERED = [method for method in REGISTRY if method != "none"]
# Questions of 2, 8 and 14 letters, so that prompts that run together differ in length.
LONGER = {"process_docs": lambda docs: docs.map(_longer)}


def _longer(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "question": document["question"] * (1 + 3 * document["number"])}


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


Generating = Callable[..., dict[str, Any]]


@pytest.fixture
def generating(stock_task: Callable[..., dict[str, Any]]) -> Generating:
    """A generation task with prompts of different lengths; arguments are its generation's."""

    def make(**kwargs: Any) -> dict[str, Any]:
        kwargs = {"until": ["\n"], "max_gen_toks": 8, **kwargs}
        return stock_task("generated", "generate_until", generation_kwargs=kwargs, **LONGER)

    return make


@pytest.fixture
def run(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> Callable[..., Results]:
    def run(config: Any, **arguments: Any) -> Results:
        return evaluate(steered(layer=LAYER, **arguments), config, limit=DOCUMENTS)

    return run


# ---- generation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4, 6])
@pytest.mark.parametrize("tokens", [1, 3, 8])
def test_prompts_of_different_lengths_are_each_steered_at_their_cue(
    tokens: int,
    batch_size: int,
    run: Callable[..., Results],
    generating: Generating,
    oracle: Oracle,
) -> None:
    config = generating(max_gen_toks=tokens)
    found = run(config, batch_size=batch_size)
    requests = asked(found, config, oracle, LAYER)
    assert len({len(a.prompt) for a in requests}) == 3
    expected = [[[continuation(oracle, a, LAYER, tokens=tokens)]] for a in requests]
    assert answers(found, "generated") == expected


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_first_of_several_stop_strings_ends_an_answer(
    batch_size: int, run: Callable[..., Results], generating: Generating, oracle: Oracle
) -> None:
    plain = generating()
    requests = asked(run(plain), plain, oracle, LAYER)
    whole = [continuation(oracle, a, LAYER, until=()) for a in requests]
    # Of each answer a letter or two that stand in it, at different places.
    stops = ["\n", whole[0][2], whole[1][3:5], whole[2][5], "never said"]
    found = run(generating(until=stops), batch_size=batch_size)
    expected = [[[continuation(oracle, a, LAYER, until=stops)]] for a in requests]
    assert answers(found, "generated") == expected
    lengths = {len(text) for [[text]] in expected}
    assert len(lengths) > 1 and max(lengths) < max(map(len, whole))


def test_every_beam_is_steered(run: Callable[..., Results], generating: Generating) -> None:
    config = generating(num_beams=3, do_sample=False)
    alone = answers(run(config, batch_size=1), "generated")
    assert answers(run(config, batch_size=4), "generated") == alone
    assert answers(run(config, method="none", batch_size=4), "generated") != alone


def test_a_request_that_is_repeated_is_answered_each_time(
    run: Callable[..., Results], stock_task: Callable[..., dict[str, Any]], oracle: Oracle
) -> None:
    kwargs = {"until": ["\n"], "max_gen_toks": 4}
    config = stock_task("generated", "generate_until", generation_kwargs=kwargs, repeats=3)
    found = run(config, batch_size=4)
    expected = [
        [[continuation(oracle, a, LAYER, tokens=4)] * 3]
        for a in asked(found, config, oracle, LAYER)
    ]
    assert answers(found, "generated") == expected


def test_tasks_that_generate_differently_run_together(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    short = stock_task(
        "short", "generate_until", generation_kwargs={"until": ["\n"], "max_gen_toks": 2}
    )
    long = stock_task(
        "long", "generate_until", generation_kwargs={"until": ["\n"], "max_gen_toks": 7}
    )
    found = evaluate(steered(layer=LAYER, batch_size=4), short, long, limit=DOCUMENTS)
    for config, tokens in ((short, 2), (long, 7)):
        assert answers(found, config["task"]) == [
            [[continuation(oracle, a, LAYER, tokens=tokens)]]
            for a in asked(found, config, oracle, LAYER)
        ]


# ---- choices ------------------------------------------------------------------------------------

ASKING_OF_LETTERS = {
    # Five letters stand in turn: documents share their prompt, and differ in their choices.
    "process_docs": lambda docs: docs.map(lambda d: {**d, "letter": d["question"][1]}),
    "doc_to_text": "Example: {{letter}} →",
    "doc_to_choice": "{{[question, answer ~ ' or not', question * 4]}}",
}


@pytest.mark.parametrize("logits_cache", [True, False])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_documents_with_one_prompt_have_their_own_choices_scored(
    batch_size: int,
    logits_cache: bool,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    config = stock_task("letters", "multiple_choice", **ASKING_OF_LETTERS)
    lm = steered(layer=LAYER, batch_size=batch_size, logits_cache=logits_cache)
    found = evaluate(lm, config)
    requests = asked(found, config, oracle, LAYER, question="letter")
    assert len({a.prompt for a in requests}) == 5 < len(requests) == 8
    for per_choice, a in zip(answers(found, "letters"), requests, strict=True):
        for [(value, greedy)], choice in zip(per_choice, a.continuations, strict=True):
            expected, likeliest = score(oracle, a, choice, LAYER)
            assert value == pytest.approx(expected, abs=1e-3)
            assert greedy == likeliest


# ---- whole texts --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", STEERED)
def test_whole_texts_are_refused_by_every_steered_method(
    method: str,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    task = stock_task("roll", "loglikelihood_rolling", doc_to_text="", metric_list=None)
    with pytest.raises(UsageError, match=rf"method={method} .*\(roll\).* method=none") as error:
        evaluate(steered(method=method), task)
    assert "\n" not in str(error.value)


# ---- batch sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", STEERED)
@pytest.mark.parametrize("batch_size", ["auto", "auto:2", "auto:3.5"])
def test_an_automatic_batch_size_gives_the_answers_of_single_requests(
    batch_size: str,
    method: str,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    generating: Generating,
) -> None:
    tasks = [
        generating(),
        stock_task("choose", "multiple_choice", **LONGER),
        stock_task("hold", "loglikelihood", **LONGER),
    ]
    small = {"method": method, "layer": LAYER, "max_length": 160}
    alone = evaluate(steered(**small, batch_size=1), *tasks, num_fewshot=1)
    lm = steered(**small, batch_size=batch_size, max_batch_size=8)
    found = evaluate(lm, *tasks, num_fewshot=1)
    assert answers(found, "generated") == answers(alone, "generated")
    for name in ("choose", "hold"):
        for mine, theirs in zip(answers(found, name), answers(alone, name), strict=True):
            for [(value, greedy)], [(expected, likeliest)] in zip(mine, theirs, strict=True):
                assert value == pytest.approx(expected, abs=1e-3)
                assert greedy == likeliest
    assert lm.batch_size == "auto"
