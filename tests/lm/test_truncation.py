"""Prompts longer than the model takes lose their beginning; the cue stays where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.methods import REGISTRY
from harness_ext.steering.episodes import EpisodeShape, development_episodes
from harness_ext.steering.task_context import TaskContext
from tests.lm.by_hand import asked, continuation, cues, line, score
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle
from tests.models import LAYERS, save_tiny

LAYER = 1
DOCUMENTS = 5
SHOTS = 6  # prompts of more than 130 tokens
MAX_LENGTH = 80  # an extraction prompt of two demonstrations fits
TOKENS = 8
GENERATION = {"until": ["\n"], "max_gen_toks": TOKENS}
STEERED = [method for method in REGISTRY if method != "none"]


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture
def short(steered: Callable[..., TaskVectorLM]) -> Callable[..., TaskVectorLM]:
    """The model, taking few tokens."""

    def make(**arguments: Any) -> TaskVectorLM:
        return steered(**{"max_length": MAX_LENGTH, "demos": 2, "layer": LAYER, **arguments})

    return make


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_prompt_that_lost_demonstrations_is_continued_from_its_cue(
    batch_size: int,
    short: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    config = stock_task("cut", "generate_until", generation_kwargs=GENERATION)
    lm = short(batch_size=batch_size)
    found = evaluate(lm, config, limit=DOCUMENTS, num_fewshot=SHOTS)
    kept, expected = MAX_LENGTH - TOKENS, []
    for a in asked(found, config, oracle, LAYER, demos=2, shots=SHOTS):
        assert len(oracle.ids(a.prompt)) > MAX_LENGTH + TOKENS
        expected.append([[continuation(oracle, a, LAYER, TOKENS, kept=kept)]])
    assert answers(found, "cut") == expected


@pytest.mark.parametrize("batch_size", [1, 4])
def test_cues_that_are_left_keep_their_own_vectors(
    batch_size: int,
    short: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    """The last of N+1 vectors go to the cues of the demonstrations that a prompt has kept."""
    length, tokens = 135, 50  # a prompt of six demonstrations fits, but not with so long an answer
    kwargs = {"until": ["\n"], "max_gen_toks": tokens}
    config = stock_task("cut", "generate_until", generation_kwargs=kwargs)
    lm = short(method="tv_ms", demos=SHOTS, max_length=length, batch_size=batch_size)
    found = evaluate(lm, config, limit=3, num_fewshot=SHOTS)
    requests = asked(found, config, oracle, LAYER, demos=SHOTS, shots=SHOTS, method="tv_ms")
    kept = length - tokens
    for a in requests:
        left = [cue for cue in cues(oracle, a.prompt) if cue >= len(oracle.ids(a.prompt)) - kept]
        assert 1 < len(left) < SHOTS + 1 == len(a.vectors)
    expected = [[[continuation(oracle, a, LAYER, tokens, kept=kept)]] for a in requests]
    assert answers(found, "cut") == expected


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("output_type", ["multiple_choice", "loglikelihood"])
def test_an_answer_to_a_prompt_that_lost_demonstrations_is_scored_after_its_cue(
    output_type: str,
    batch_size: int,
    short: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    config = stock_task("cut", output_type)
    lm = short(batch_size=batch_size)
    found = evaluate(lm, config, limit=DOCUMENTS, num_fewshot=SHOTS)
    requests = asked(found, config, oracle, LAYER, demos=2, shots=SHOTS)
    for per_choice, a in zip(answers(found, "cut"), requests, strict=True):
        for [(value, greedy)], target in zip(per_choice, a.continuations, strict=True):
            expected, likeliest = score(oracle, a, target, LAYER, MAX_LENGTH)
            assert value == pytest.approx(expected, abs=1e-3)
            assert greedy == likeliest


@pytest.mark.parametrize("length", ["as long as fits", "one token longer"])
def test_a_prompt_is_cut_where_it_no_longer_fits_and_not_before(
    length: str,
    short: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    config = stock_task("cut", "generate_until", generation_kwargs=GENERATION)
    options = {"limit": 1, "num_fewshot": 3}
    [a] = asked(
        evaluate(short(max_length=512), config, **options), config, oracle, LAYER, demos=2, shots=3
    )
    whole = len(oracle.ids(a.prompt)) + TOKENS
    fits = length == "as long as fits"
    lm = short(max_length=whole if fits else whole - 1)
    kept = whole - TOKENS - (0 if fits else 1)
    expected = continuation(oracle, a, LAYER, TOKENS, kept=kept)
    assert answers(evaluate(lm, config, **options), "cut") == [[[expected]]]


@pytest.mark.parametrize("method", STEERED)
def test_a_prompt_whose_cue_is_cut_off_is_a_mistake_of_every_method(
    method: str,
    short: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    config = stock_task("long", "loglikelihood", doc_to_target="{{answer}}" + "!" * 90)
    with pytest.raises(UsageError, match=r"the cue of the prompt .* is cut off: .* max_length"):
        evaluate(short(method=method, demos=1), config, limit=1)


# Of `tv_ms` no development prompt is longer than the prompt its vectors are read from.
@pytest.mark.parametrize("method", ["tv", "tv_m"])
@pytest.mark.parametrize("output_type", ["generate_until", "multiple_choice"])
def test_a_layer_is_developed_where_no_token_more_has_a_position(
    output_type: str,
    method: str,
    tmp_path: Path,
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    """GPT-2 learns its positions: a development prompt longer than it takes would fail."""
    model = save_tiny(tmp_path, "gpt2", "split", n_positions=MAX_LENGTH)
    lm = TaskVectorLM(pretrained=str(model), method=method, demos=2, dev=3)
    assert lm.max_length == MAX_LENGTH
    config = stock_task("cut", output_type, generation_kwargs=GENERATION)
    found = evaluate(lm, config, limit=2, num_fewshot=SHOTS)
    record = found["config"]["steering"]["tasks"]["cut"]
    assert len(record["development_log_prob_by_layer"]) == LAYERS
    assert None not in record["development_log_prob_by_layer"]


@pytest.mark.parametrize("delimiter", ["", " "])
def test_development_prompts_lose_what_tested_ones_lose(
    delimiter: str,
    short: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    config = stock_task(
        "cut", "generate_until", generation_kwargs=GENERATION, target_delimiter=delimiter
    )
    lm = short(layer="auto", dev=4)
    record = evaluate(lm, config, limit=1, num_fewshot=SHOTS)["config"]["steering"]["tasks"]["cut"]
    task = TaskManager(include_defaults=False).load([config])["tasks"]["cut"]
    task.set_config("num_fewshot", SHOTS)
    episodes = development_episodes(TaskContext(task, {}), EpisodeShape(2, SHOTS, 1), 4, 0)

    def text(shown: Sequence[Any], query: Any) -> str:
        lines = [f"{line(d['question'])}{delimiter}{d['answer']}\n" for d in shown]
        return "".join([*lines, line(query["question"])])

    for layer, found in enumerate(record["development_log_prob_by_layer"]):
        log_probs = []
        for e in episodes:
            vector = oracle.state(text(e.demonstrations, e.dummies[0]), layer)
            ids = oracle.ids(text(e.shots, e.query))[-(MAX_LENGTH - TOKENS) :]
            # A blank that every answer begins with is a token of its own, and scored with it.
            opening = oracle.ids(delimiter + e.query["answer"])[: len(delimiter) + 1]
            logits = oracle.logits([*ids, *opening[:-1]], layer, [vector], [len(ids) - 1])
            own = logits[len(ids) - 1 :].log_softmax(dim=1)
            log_probs.append(float(own[range(len(opening)), opening].sum()))
        assert found == pytest.approx(sum(log_probs) / 4, abs=1e-3)
