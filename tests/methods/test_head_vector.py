"""Head vectors (`tr`, `tl`, `ih`, `random`) against a slow implementation of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lm_eval.tasks import TaskManager
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.methods import head_scores, task_vector
from harness_ext.methods.head_vector import _deal
from harness_ext.steering.episodes import (
    Episode,
    EpisodeShape,
    development_episodes,
    members,
    reusable_episodes,
)
from harness_ext.steering.task_context import TaskContext
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle, word_prompt
from tests.models import LAYERS

TASK = "forward_upper3"
DEMOS, AVERAGE, DEV, DOCUMENTS = 3, 4, 5, 6
HEADS, SIZE = 4, 8
SHAPE = EpisodeShape(DEMOS, 0, 1)
FRACTION = 3 / (LAYERS * HEADS)
ALL = ("tr", "tl", "ih", "random")

Make = Callable[..., TaskVectorLM]
Run = Callable[..., Results]
Heads = list[tuple[int, int]]


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture
def context(manager: TaskManager) -> TaskContext:
    task = manager.load([TASK])["tasks"][TASK]
    task.set_fewshot_seed(1234)
    task.set_config("num_fewshot", 0)
    return TaskContext(task, {})


@pytest.fixture
def heads(folder: Path) -> Make:
    """The tiny model under a head method, with small draws."""

    def make(method: str, **arguments: Any) -> TaskVectorLM:
        given = {
            "pretrained": str(folder),
            "demos": DEMOS,
            "average": AVERAGE,
            "dev": DEV,
            "head_fraction": FRACTION,
            **arguments,
        }
        return TaskVectorLM(method=method, **given)

    return make


def outputs(oracle: Oracle, prompt: str) -> Tensor:
    """What each head adds at the prompt's last token: [layers, heads, width]."""
    seen: list[Tensor] = []
    handles = [
        layer.self_attn.o_proj.register_forward_pre_hook(
            lambda module, args: seen.append(args[0][0, -1].clone())
        )
        for layer in oracle.model.model.layers
    ]
    with torch.no_grad():
        oracle.model(torch.tensor([oracle.ids(prompt)]))
    for handle in handles:
        handle.remove()
    found = []
    for layer, inputs in zip(oracle.model.model.layers, seen, strict=True):
        weight = layer.self_attn.o_proj.weight.detach()
        slices = [slice(head * SIZE, (head + 1) * SIZE) for head in range(HEADS)]
        found.append(torch.stack([weight[:, own] @ inputs[own] for own in slices]))
    return torch.stack(found)


def first_token(oracle: Oracle, answer: str) -> int:
    """The tokenizer writes a blank, which all answers share, then the letter."""
    return oracle.ids(" " + answer)[1]


def by_hand(oracle: Oracle, episodes: Sequence[Episode]) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """Outputs [episodes, layers, heads, width], TR and TL scores [layers, heads]."""
    unembedding = oracle.model.lm_head.weight.detach().numpy().astype(float)
    written, tr, tl = [], np.zeros((LAYERS, HEADS)), np.zeros((LAYERS, HEADS))
    for episode in episodes:
        query = episode.dummies[0]
        found = outputs(oracle, word_prompt(episode.demonstrations, query))
        written.append(found)
        right = first_token(oracle, query["target"])
        others = {first_token(oracle, d["target"]) for d in episode.demonstrations} - {right}
        rows = unembedding[[right, *others]].T
        for layer in range(LAYERS):
            for head in range(HEADS):
                a = found[layer, head].numpy().astype(float)
                weights, *_ = np.linalg.lstsq(rows, a, rcond=None)
                norm = np.linalg.norm(rows @ weights)
                tr[layer, head] += norm / len(episodes)
                leads = [a @ (unembedding[right] - unembedding[other]) for other in others]
                tl[layer, head] += np.mean(leads) / norm / len(episodes)
    return torch.stack(written), tr, tl


def best(scores: np.ndarray, count: int = 3) -> Heads:
    order = np.argsort(-scores, axis=None)[:count]
    return [(int(n) // HEADS, int(n) % HEADS) for n in order]


def summed(written: Tensor, chosen: Heads) -> Tensor:
    """[episodes, width]"""
    return torch.stack([written[:, layer, head] for layer, head in chosen]).sum(dim=0)


@pytest.mark.parametrize("method", ["tr", "tl"])
def test_the_heads_are_those_that_a_slow_loop_scores_highest(
    method: str, heads: Make, evaluate: Run, context: TaskContext, oracle: Oracle
) -> None:
    found = evaluate(heads(method, layer=1, strength=2), TASK, limit=1)
    record = found["config"]["steering"]["tasks"][TASK]
    episodes = reusable_episodes(context, SHAPE, AVERAGE, 0)
    _, *scores = by_hand(oracle, episodes)
    own = scores[0] if method == "tr" else scores[1]
    assert record["heads"] == [list(head) for head in best(own)]
    assert record["head_scores"] == pytest.approx([own[head] for head in best(own)], abs=2e-4)


@pytest.mark.parametrize(("layer", "strength"), [(0, 3.0), (2, 30.0)])
@pytest.mark.parametrize("method", ["tr", "tl"])
def test_the_sum_of_the_heads_mean_outputs_is_added_at_the_cue(
    method: str,
    layer: int,
    strength: float,
    heads: Make,
    evaluate: Run,
    context: TaskContext,
    oracle: Oracle,
) -> None:
    lm = heads(method, layer=layer, strength=strength, batch_size=3)
    found = evaluate(lm, TASK, limit=DOCUMENTS)
    written, *scores = by_hand(oracle, reusable_episodes(context, SHAPE, AVERAGE, 0))
    vector = summed(written, best(scores[method == "tl"])).mean(dim=0)
    prompts = [word_prompt([], document) for document in context.task.test_docs()][:DOCUMENTS]
    expected = [[[oracle.answer(prompt, layer, vector, strength)]] for prompt in prompts]
    plain = [[[oracle.answer(prompt)]] for prompt in prompts]
    assert answers(found, TASK) == expected
    assert expected != plain


def test_layer_and_strength_are_chosen_without_the_querys_own_episodes(
    heads: Make, evaluate: Run, context: TaskContext, oracle: Oracle
) -> None:
    found = evaluate(heads("tr"), TASK, limit=1)
    record = found["config"]["steering"]["tasks"][TASK]
    episodes = reusable_episodes(context, SHAPE, AVERAGE, 0)
    held = [members(context, episode) for episode in episodes]
    written, tr, _ = by_hand(oracle, episodes)
    sums = summed(written, best(tr))
    asked = [
        (episode.query, [k for k, own in enumerate(held) if f"pair {query}" not in own])
        for episode in development_episodes(context, SHAPE, DEV, 0)
        for query in [episode.query["pair"]]
    ]
    asked = [(query, fit) for query, fit in asked if fit]
    assert record["development_episodes"] == len(asked) > 1
    assert list(record["development_log_prob_by_layer"]) == ["1.0", "2.0", "4.0", "8.0"]
    for strength in (1.0, 8.0):
        for layer in range(LAYERS):
            total = 0.0
            for query, fit in asked:
                prompt = word_prompt([], query)
                opening = oracle.ids(" " + query["target"])[:2]
                fed = [*oracle.ids(prompt), opening[0]]
                vector = sums[fit].mean(dim=0)
                logits = oracle.logits(fed, layer, [vector], oracle.cues(prompt), strength)
                rows = logits[-2:].log_softmax(dim=1)
                total += float(rows[[0, 1], opening].sum())
            given = record["development_log_prob_by_layer"][str(strength)][layer]
            assert given == pytest.approx(total / len(asked), abs=1e-3)


@contextmanager
def added(oracle: Oracle, vectors: dict[int, Tensor], position: int) -> Iterator[None]:
    """While open, each vector is added after its layer at one position."""

    def edit(vector: Tensor) -> Any:
        def hook(_: Any, __: Any, output: Any) -> Any:
            hidden = (output[0] if isinstance(output, tuple) else output).clone()
            hidden[0, position] += vector
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        return hook

    with ExitStack() as stack:
        for layer, vector in vectors.items():
            hook = oracle.model.model.layers[layer].register_forward_hook(edit(vector))
            stack.callback(hook.remove)
        yield


@pytest.mark.parametrize("strength", [20.0, "auto"])
def test_each_head_can_be_added_after_its_own_layer(
    strength: float | str, heads: Make, evaluate: Run, context: TaskContext, oracle: Oracle
) -> None:
    found = evaluate(heads("tr", inject_at="own", strength=strength), TASK, limit=DOCUMENTS)
    record = found["config"]["steering"]["tasks"][TASK]
    written, tr, _ = by_hand(oracle, reusable_episodes(context, SHAPE, AVERAGE, 0))
    chosen = best(tr)
    layers = sorted({layer for layer, _ in chosen})
    assert len(layers) > 1
    assert record["layers"] == layers
    factor = record["strength"]
    assert factor in ([20.0] if strength == 20 else [1.0, 2.0, 4.0, 8.0])
    vectors = {
        layer: factor * summed(written, [head for head in chosen if head[0] == layer]).mean(dim=0)
        for layer in layers
    }
    expected = []
    for document in list(context.task.test_docs())[:DOCUMENTS]:
        prompt = word_prompt([], document)
        with added(oracle, vectors, oracle.cues(prompt)[-1]):
            expected.append([[oracle.answer(prompt)]])
    assert answers(found, TASK) == expected
    if strength == "auto":
        by_strength = record["development_accuracy_by_strength"]
        assert list(by_strength) == ["1.0", "2.0", "4.0", "8.0"]
        assert record["development_accuracy"] == max(by_strength.values())


def test_random_heads_are_dealt_by_document_and_none_is_a_task_recognition_head(
    heads: Make, evaluate: Run, context: TaskContext, oracle: Oracle
) -> None:
    found = evaluate(heads("random", layer=1, strength=30, draws=2), TASK, limit=12)
    record = found["config"]["steering"]["tasks"][TASK]
    written, tr, _ = by_hand(oracle, reusable_episodes(context, SHAPE, AVERAGE, 0))
    drawn = [[tuple(head) for head in draw["heads"]] for draw in record["draws"]]
    assert drawn[0] != drawn[1]
    for own in drawn:
        assert len(own) == 3
        assert not set(own) & set(best(tr))
        assert sorted(layer for layer, _ in own) == sorted(layer for layer, _ in best(tr))
    documents = list(context.task.test_docs())[:12]
    dealt = [_deal(context, document, 2) for document in documents]
    assert {0, 1} == set(dealt)
    samples = found["samples"][TASK]
    for number, draw in enumerate(record["draws"]):
        own = [sample["doc_hash"] for sample in samples if dealt[sample["doc_id"]] == number]
        assert (draw["draw"], draw["doc_hashes"]) == (number, own)
    vectors = [summed(written, own).mean(dim=0) for own in drawn]
    expected = [
        [[oracle.answer(word_prompt([], document), 1, vectors[draw], 30.0)]]
        for document, draw in zip(documents, dealt, strict=True)
    ]
    assert answers(found, TASK) == expected


def test_the_record_of_random_heads_has_the_mean_and_spread_of_its_draws(
    heads: Make, evaluate: Run
) -> None:
    found = evaluate(heads("random", draws=3), TASK, limit=12)
    record = found["config"]["steering"]["tasks"][TASK]
    assert len(record["draws"]) == 3
    own = [draw["development_accuracy"] for draw in record["draws"]]
    assert record["development_accuracy"] == pytest.approx(np.mean(own), abs=1e-4)
    assert record["development_accuracy_sd"] == pytest.approx(np.std(own, ddof=1), abs=1e-4)


def test_a_draw_that_no_document_falls_to_costs_nothing(
    heads: Make, evaluate: Run, context: TaskContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[int] = []
    before = task_vector.select

    def counted(bench: Any, context: Any, episodes: Any, *rest: Any) -> Any:
        swept.append(len(episodes))
        return before(bench, context, episodes, *rest)

    monkeypatch.setattr(task_vector, "select", counted)
    found = evaluate(heads("random", draws=50), TASK, limit=3)
    record = found["config"]["steering"]["tasks"][TASK]
    dealt = {_deal(context, document, 50) for document in list(context.task.test_docs())[:3]}
    assert [draw["draw"] for draw in record["draws"]] == sorted(dealt)
    assert len(swept) == len(dealt) <= 3


@pytest.mark.parametrize("method", ALL)
def test_strength_zero_is_the_plain_model(
    method: str, heads: Make, evaluate: Run, steered: Make
) -> None:
    found = evaluate(heads(method, layer=1, strength=0), TASK, limit=DOCUMENTS)
    plain = evaluate(steered(method="none"), TASK, limit=DOCUMENTS)
    assert answers(found, TASK) == answers(plain, TASK)


@pytest.mark.parametrize("method", ["tr", "random"])
def test_chats_with_shots_are_answered_in_batches_as_alone(
    method: str, heads: Make, evaluate: Run, context: TaskContext, oracle: Oracle
) -> None:
    chat = "{% for turn in messages %}{{ turn.content + ('' if loop.last else ' ') }}{% endfor %}"
    found = []
    for batch_size in (1, "auto"):
        given = {"batch_size": batch_size, "max_batch_size": 4, "max_length": 200}
        lm = heads(method, layer=1, strength=30, **given)
        lm.tokenizer.chat_template = chat
        options = {"num_fewshot": 2, "apply_chat_template": True}
        found.append(evaluate(lm, TASK, limit=DOCUMENTS, **options))
    alone, together = found
    assert answers(together, TASK) == answers(alone, TASK)
    prompts = [sample["arguments"][0][0] for sample in alone["samples"][TASK]]
    assert all(prompt.count("→") == 3 for prompt in prompts)
    assert answers(alone, TASK) != [[[oracle.answer(prompt)]] for prompt in prompts]


def test_the_log_names_the_task_whose_labels_are_alike(
    heads: Make,
    evaluate: Run,
    stock_task: Callable[..., dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = stock_task(
        "alike",
        "generate_until",
        doc_to_target="{{ ['yes', 'yep', 'no'][number] }}",
        generation_kwargs={"until": ["\n"], "max_gen_toks": 2},
    )
    evaluate(heads("tr", layer=1, strength=2), task, limit=1)
    assert any(
        message.startswith("task 'alike': in ") and "begin with the same token" in message
        for message in caplog.messages
    )


def test_kinds_of_heads_on_one_model_share_what_was_read(
    heads: Make, evaluate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = heads("tr", layer=1, strength=2)
    evaluate(lm, TASK, limit=1)
    read: list[int] = []
    before = head_scores.head_outputs

    def counted(attention: Any, rows: Any, **rest: Any) -> Tensor:
        read.append(len(rows))
        return before(attention, rows, **rest)

    monkeypatch.setattr(head_scores, "head_outputs", counted)
    same = {"demos": DEMOS, "average": AVERAGE, "head_fraction": FRACTION}
    for method in ("tl", "random", "ih"):
        evaluate(lm.with_steering(method=method, layer=1, strength=2, **same), TASK, limit=1)
    assert not read
    other = lm.with_steering(method="tr", layer=1, strength=2, **{**same, "demos": DEMOS - 1})
    evaluate(other, TASK, limit=1)
    assert read == [AVERAGE]


@pytest.mark.parametrize(("method", "draws"), [("tr", None), ("random", 3)])
def test_heads_are_read_once_even_where_memory_has_no_room(
    method: str,
    draws: int | None,
    heads: Make,
    evaluate: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    before = head_scores.head_outputs

    def counted(attention: Any, rows: Any, **rest: Any) -> Tensor:
        read.append(len(rows))
        return before(attention, rows, **rest)

    monkeypatch.setattr(head_scores, "head_outputs", counted)
    lm = heads(method, layer=1, strength=2, **({"draws": draws} if draws else {}))
    lm._memory.budget = 0
    evaluate(lm, TASK, limit=3)
    assert read == [AVERAGE]


def test_readings_of_other_seeds_make_room(heads: Make, evaluate: Run) -> None:
    lm = heads("tr", layer=1, strength=2)
    lm._memory.budget = 4 * AVERAGE * LAYERS * HEADS * 32
    for seed in range(3):
        given = {"demos": DEMOS, "average": AVERAGE, "layer": 1, "strength": 2, "seed": seed}
        other = lm.with_steering(method="tr", **given)
        evaluate(other, TASK, limit=1)
        kept = [key for key in lm._memory.of(TASK) if isinstance(key, tuple) and key[0] == "heads"]
        assert len(kept) == AVERAGE


def test_head_vectors_are_saved_and_read_back(
    heads: Make, evaluate: Run, steered: Make, folder: Path, tmp_path: Path
) -> None:
    lm = heads("tl", strength=20, save_vectors=str(tmp_path))
    made = evaluate(lm, TASK, limit=DOCUMENTS)
    given = TaskVectorLM(pretrained=str(folder), method="tl", vectors=str(tmp_path))
    read = evaluate(given, TASK, limit=DOCUMENTS)
    assert answers(read, TASK) == answers(made, TASK)
    assert (
        read["config"]["steering"]["tasks"][TASK]["heads"]
        == made["config"]["steering"]["tasks"][TASK]["heads"]
    )


def test_a_task_of_one_label_is_refused_by_name(
    heads: Make, evaluate: Run, stock_task: Callable[..., dict[str, Any]]
) -> None:
    task = stock_task(
        "constant",
        "generate_until",
        doc_to_target="same",
        generation_kwargs={"until": ["\n"], "max_gen_toks": 2},
    )
    with pytest.raises(UsageError, match="task 'constant': every few-shot document has one"):
        evaluate(heads("tr", layer=1, strength=2), task, limit=1)
