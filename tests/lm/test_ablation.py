"""Heads knocked out while lm-eval's requests run, against a loop with hooks, a prompt at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.tasks import TaskManager
from torch import Tensor

from harness_ext.config import parse_model_args
from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.methods import ablated, base
from harness_ext.methods.head_scores import HeadChoice
from harness_ext.steering.episodes import EpisodeShape, reusable_episodes
from harness_ext.steering.task_context import TaskContext
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle, word_prompt
from tests.lm.test_independence import same
from tests.models import save_tiny

WORDS, ECHO = "forward_upper3", "forward_echo"
KINDS = ("tr", "tl", "ih", "random")
LIMIT = 6
HEADS, SIZE = 4, 8
AVERAGE = 3
# Of each task its own; in the zero-shot setting both ask the very same prompts.
CHOSEN = {
    WORDS: [(2, 1), (0, 3), (2, 0)],
    ECHO: [(1, 2), (3, 0), (1, 0)],
    "choose": [(3, 3), (0, 0), (1, 1)],
    "hold": [(0, 1), (2, 2), (2, 3)],
}

Heads = Sequence[tuple[int, int]]
Make = Callable[..., TaskVectorLM]
Run = Callable[..., Results]


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture
def given_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every task, those of CHOSEN are knocked out."""
    monkeypatch.setattr(
        ablated, "heads_by", lambda kind, bench, context: HeadChoice(CHOSEN[context.name], {})
    )


@pytest.fixture
def ablating(steered: Make) -> Make:
    def make(kind: str = "tr", **arguments: Any) -> TaskVectorLM:
        # Induction heads are found without the task's prompts.
        draws = dict.fromkeys(("demos", "average")) if kind == "ih" else {"average": AVERAGE}
        given = {"method": "none", "ablate": kind, **draws, "dev": None, **arguments}
        return steered(**given)

    return make


@pytest.fixture
def steered(folder: Path) -> Make:
    """The tiny model with small draws."""

    def make(**arguments: Any) -> TaskVectorLM:
        given = {"pretrained": str(folder), "demos": 3, **arguments}
        return TaskVectorLM(**{name: value for name, value in given.items() if value is not None})

    return make


@contextmanager
def knocked_out(
    oracle: Oracle, heads: Heads, position: int | None = None, values: Tensor | None = None
) -> Iterator[None]:
    """While open, the oracle's model runs without the heads, at one position or everywhere.

    values: [layers, heads, size] in their place.
    """

    def hook(layer: int) -> Any:
        def change(_: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            given = args[0].clone()
            columns = slice(None) if position is None else position
            for own, head in heads:
                if own == layer:
                    part = slice(head * SIZE, (head + 1) * SIZE)
                    given[:, columns, part] = 0 if values is None else values[layer, head]
            return (given,)

        return change

    projections = [layer.self_attn.o_proj for layer in oracle.model.model.layers]
    handles = [p.register_forward_pre_hook(hook(n)) for n, p in enumerate(projections)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def place(oracle: Oracle, prompt: str, at: str) -> int | None:
    return oracle.cues(prompt)[-1] if at == "cue" else None


def expected_words(
    oracle: Oracle, results: Results, task: str, heads: Heads, at: str, values: Tensor | None = None
) -> list[Any]:
    found = []
    for sample in results["samples"][task]:
        prompt = sample["arguments"][0][0]
        with knocked_out(oracle, heads, place(oracle, prompt, at), values):
            found.append([[oracle.answer(prompt)]])
    return found


@pytest.mark.parametrize("at", ["all", "cue"])
@pytest.mark.parametrize("shots", [0, 2])
def test_an_answer_is_that_of_the_model_without_the_heads(
    at: str, shots: int, given_heads: None, ablating: Make, evaluate: Run, oracle: Oracle
) -> None:
    found = evaluate(ablating(ablate_at=at), WORDS, limit=LIMIT, num_fewshot=shots)
    expected = expected_words(oracle, found, WORDS, CHOSEN[WORDS], at)
    assert answers(found, WORDS) == expected
    plain = evaluate(ablating(ablate="none", average=None), WORDS, limit=LIMIT, num_fewshot=shots)
    assert answers(plain, WORDS) != expected


@pytest.mark.parametrize("at", ["all", "cue"])
@pytest.mark.parametrize("output_type", ["multiple_choice", "loglikelihood"])
def test_scored_answers_are_those_of_the_model_without_the_heads(
    output_type: str,
    at: str,
    given_heads: None,
    ablating: Make,
    evaluate: Run,
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    name = {"multiple_choice": "choose", "loglikelihood": "hold"}[output_type]
    lm = ablating(ablate_at=at, batch_size=4)
    found = evaluate(lm, stock_task(name, output_type), num_fewshot=2, limit=LIMIT)
    for sample in found["samples"][name]:
        for (prompt, continuation), response in zip(
            sample["arguments"], sample["resps"], strict=True
        ):
            with knocked_out(oracle, CHOSEN[name], place(oracle, prompt, at)):
                score, greedy = oracle.score(prompt, continuation)
            assert response[0] == (pytest.approx(score, abs=1e-3), greedy)
            assert abs(score - oracle.score(prompt, continuation)[0]) > 1e-3


@pytest.mark.parametrize("at", ["all", "cue"])
def test_a_mean_is_over_the_prompts_that_heads_are_scored_on(
    at: str,
    given_heads: None,
    ablating: Make,
    evaluate: Run,
    manager: TaskManager,
    oracle: Oracle,
) -> None:
    lm = ablating(ablate_at=at, ablate_with="mean")
    found = evaluate(lm, WORDS, limit=LIMIT, num_fewshot=2)
    task = manager.load([WORDS])["tasks"][WORDS]
    task.set_fewshot_seed(1234)
    task.set_config("num_fewshot", 2)
    episodes = reusable_episodes(TaskContext(task, {}), EpisodeShape(3, 2, 1), AVERAGE, 0)
    tokens: list[Tensor] = []
    for episode in episodes:
        ids = oracle.ids(word_prompt(episode.demonstrations, episode.dummies[0]))
        seen: list[Tensor] = []
        handles = [
            layer.self_attn.o_proj.register_forward_pre_hook(
                lambda _, args, seen=seen: seen.append(args[0][0])
            )
            for layer in oracle.model.model.layers
        ]
        oracle.logits(ids)
        for handle in handles:
            handle.remove()
        tokens.append(torch.stack(seen)[:, slice(None) if at == "all" else slice(-1, None)])
    values = torch.cat(tokens, dim=1).mean(dim=1).unflatten(1, (HEADS, SIZE))
    expected = expected_words(oracle, found, WORDS, CHOSEN[WORDS], at, values)
    assert answers(found, WORDS) == expected
    zeros = evaluate(ablating(ablate_at=at), WORDS, limit=LIMIT, num_fewshot=2)
    assert answers(zeros, WORDS) != expected


@pytest.mark.parametrize("at", ["all", "cue"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_size", [1, 5, "auto"])
def test_tasks_that_lose_different_heads_answer_together_as_they_do_alone(
    batch_size: int | str,
    side: str,
    at: str,
    given_heads: None,
    ablating: Make,
    evaluate: Run,
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    tasks = [WORDS, ECHO, stock_task("choose", "multiple_choice")]
    lm = ablating(ablate_at=at, batch_size=batch_size, max_batch_size=4, max_length=96)
    lm.tokenizer.padding_side = side
    together = evaluate(lm, *tasks, limit=LIMIT)
    for task, name in zip(tasks, (WORDS, ECHO, "choose"), strict=True):
        alone = evaluate(ablating(ablate_at=at), task, limit=LIMIT)
        assert same(answers(together, name), answers(alone, name))
    assert answers(together, WORDS) != answers(together, ECHO)


def test_prompts_of_different_lengths_share_a_batch(
    given_heads: None,
    ablating: Make,
    evaluate: Run,
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    def longer(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "question": document["question"] * (1 + 3 * document["number"])}

    config = stock_task(
        "hold",
        "generate_until",
        process_docs=lambda docs: docs.map(longer),
        generation_kwargs={"until": ["\n"], "max_gen_toks": 8, "do_sample": False},
    )
    for at in ("all", "cue"):
        found = evaluate(ablating(ablate_at=at, batch_size=8), config, num_fewshot=1)
        assert len({len(sample["arguments"][0][0]) for sample in found["samples"]["hold"]}) > 2
        expected = expected_words(oracle, found, "hold", CHOSEN["hold"], at)
        assert answers(found, "hold") == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_heads_of_a_task_are_chosen_and_said(
    kind: str, ablating: Make, evaluate: Run, oracle: Oracle
) -> None:
    lm = ablating(kind, head_fraction=0.2)
    found = evaluate(lm, WORDS, limit=LIMIT, num_fewshot=2)
    steering = found["config"]["steering"]
    record = steering["tasks"][WORDS]
    assert len(record["heads"]) == 3  # of 16
    said = {name: record[name] for name in ("ablate_at", "ablate_with", "shots", "prompts_cut")}
    assert said == {"ablate_at": "all", "ablate_with": "zero", "shots": 2, "prompts_cut": 0}
    assert (record["head_kind"], record["head_fraction"]) == (kind, 0.2)
    assert (steering["arguments"]["method"], steering["arguments"]["ablate"]) == ("none", kind)
    assert steering["model"]["architecture"] == "LlamaForCausalLM"
    heads = [(layer, head) for layer, head in record["heads"]]
    assert answers(found, WORDS) == expected_words(oracle, found, WORDS, heads, "all")


def test_heads_are_found_once_in_a_loaded_model(
    ablating: Make, evaluate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []
    dissect = base.dissect_attention

    def counted(anatomy: Any) -> Any:
        calls.append(None)
        return dissect(anatomy)

    monkeypatch.setattr(base, "dissect_attention", counted)
    lm = ablating()
    for kind in KINDS:
        draws = {} if kind == "ih" else {"demos": 3, "average": 2}
        other = lm.with_steering(method="none", ablate=kind, **draws)
        evaluate(other, WORDS, ECHO, limit=1)
    assert len(calls) == 1


def test_an_overflow_without_the_heads_is_not_taken_for_an_answer(
    given_heads: None, ablating: Make, evaluate: Run
) -> None:
    lm = ablating(dtype="float16")
    assert lm._method.bench.attention  # found while the model is still sound
    with torch.no_grad():
        lm.model.model.layers[1].mlp.up_proj.weight *= 300
        lm.model.model.layers[1].mlp.down_proj.weight *= 3000
    with pytest.raises(UsageError, match=r"after layer 1 holds NaN or infinity .*dtype=float32"):
        evaluate(lm, WORDS, limit=1)


def test_vectors_and_ablation_exclude_each_other_before_a_model_is_loaded() -> None:
    with pytest.raises(UsageError, match="it takes method=none, not method=tv"):
        TaskVectorLM(pretrained="/no/such/model", method="tv", ablate="tr")


def test_a_fraction_that_leaves_no_head_is_refused_by_the_models_configuration(
    ablating: Make,
) -> None:
    with pytest.raises(UsageError, match=r"head_fraction=0.98 knocks out all 16 heads"):
        ablating(head_fraction=0.98)
    assert parse_model_args({"method": "tr", "head_fraction": 0.98})


def test_whole_texts_are_refused(
    ablating: Make, evaluate: Run, stock_task: Callable[..., dict[str, Any]]
) -> None:
    config = stock_task(
        "whole", "loglikelihood_rolling", doc_to_text="", doc_to_target="{{answer}}"
    )
    with pytest.raises(UsageError, match="ablate=tr needs prompts that end in a cue"):
        evaluate(ablating(), config, limit=1)


def test_the_response_cache_is_refused(ablating: Make) -> None:
    with pytest.raises(UsageError, match="--use_cache cannot be combined with ablate=tr"):
        ablating().set_cache_hook(None)


def test_a_model_whose_attention_cannot_be_split_is_refused_by_name(
    tmp_path: Path, ablating: Make, evaluate: Run
) -> None:
    lm = ablating(pretrained=str(save_tiny(tmp_path, "opt_projected")))
    with pytest.raises(UsageError, match="attention of OPTForCausalLM cannot be split into heads"):
        evaluate(lm, WORDS, limit=1)
