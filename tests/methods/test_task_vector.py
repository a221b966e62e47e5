"""Task vectors: reusable ones, what they cost, what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.tasks import TaskManager

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.steering.episodes import (
    Episode,
    EpisodeShape,
    development_episodes,
    reusable_episodes,
)
from harness_ext.steering.task_context import TaskContext
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle, word_prompt
from tests.models import LAYERS

TASK = "forward_upper3"
SHAPE = EpisodeShape(demonstrations=3, shots=0, queries=1)
AVERAGE = 3


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture
def context(manager: TaskManager) -> TaskContext:
    task = manager.load([TASK])["tasks"][TASK]
    task.set_fewshot_seed(1234)
    return TaskContext(task, {})


def mean_state(oracle: Oracle, episodes: list[Episode], layer: int) -> torch.Tensor:
    states = [oracle.state(word_prompt(e.demonstrations, e.dummies[0]), layer) for e in episodes]
    return torch.stack(states).mean(dim=0)


def test_a_reusable_vector_is_the_mean_over_its_episodes_for_every_document(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    context: TaskContext,
    oracle: Oracle,
) -> None:
    found = evaluate(steered(average=AVERAGE, layer=2), TASK, limit=6)
    vector = mean_state(oracle, reusable_episodes(context, SHAPE, AVERAGE, 0), 2)
    prompts = [word_prompt([], context.task.test_docs()[number]) for number in range(6)]
    assert answers(found, TASK) == [[[oracle.answer(prompt, 2, vector)]] for prompt in prompts]


def test_a_reusable_vectors_layer_is_chosen_on_queries_it_never_saw(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    context: TaskContext,
    oracle: Oracle,
) -> None:
    found = evaluate(steered(average=AVERAGE, dev=8), TASK, limit=1)
    record = found["config"]["steering"]["tasks"][TASK]
    episodes = reusable_episodes(context, SHAPE, AVERAGE, 0)
    members = [{d["pair"] for d in (*e.demonstrations, *e.dummies)} for e in episodes]
    log_probs: dict[int, list[float]] = {layer: [] for layer in range(LAYERS)}
    partial = 0
    for development in development_episodes(context, SHAPE, 8, 0):
        query = development.query
        unseen = [e for e, own in zip(episodes, members, strict=True) if query["pair"] not in own]
        partial += 0 < len(unseen) < AVERAGE
        if not unseen:
            continue
        ids = oracle.ids(word_prompt([], query))
        # The tokenizer writes a blank, then the letter: both are scored, one after the other.
        opening = oracle.ids(" " + query["target"])[:2]
        for layer, found_so_far in log_probs.items():
            vector = mean_state(oracle, unseen, layer)
            fed = [*ids, *opening[:-1]]
            rows = oracle.logits(fed, layer, [vector], [len(ids) - 1])[-len(opening) :]
            scores = rows.log_softmax(dim=1)[range(len(opening)), opening]
            found_so_far.append(float(scores.sum()))
    assert partial
    assert record["development_episodes"] == len(log_probs[0])
    assert record["development_log_prob_by_layer"] == pytest.approx(
        [sum(own) / len(own) for own in log_probs.values()], abs=1e-3
    )


def test_no_query_left_to_choose_a_layer_on_is_a_mistake(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    # One episode holds ten of the eleven pairs, and the one development query is among them.
    with pytest.raises(UsageError, match=r"average=1 .* Raise average, lower demos"):
        evaluate(steered(average=1, demos=9, dev=1), TASK, limit=1)


@pytest.mark.parametrize(("arguments", "forwards"), [({"average": 0}, 2), ({"average": 2}, 2)])
def test_a_given_layer_needs_no_development_forward(
    arguments: dict[str, Any],
    forwards: int,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    config = stock_task("hold", "loglikelihood")

    def count(layer: int | str) -> int:
        lm = steered(**arguments, layer=layer, batch_size=64)
        calls: list[None] = []
        lm.model.register_forward_pre_hook(lambda *_: calls.append(None))
        evaluate(lm, config)
        return len(calls)

    # One for all extraction prompts, one for all tested ones.
    assert count(layer=1) == forwards
    assert count(layer="auto") > forwards


def test_documents_asked_about_several_times_are_extracted_once(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    lm = steered(layer=1, batch_size=64)
    extracted: list[int] = []

    def note(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if "input_ids" in kwargs:  # lm-eval passes its own by position
            extracted.append(len(kwargs["input_ids"]))

    lm.model.register_forward_pre_hook(note, with_kwargs=True)
    evaluate(lm, stock_task("choose", "multiple_choice"), limit=5)
    assert extracted == [5]  # and three choices each


def test_a_state_that_overflows_is_named(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    lm = steered(layer="auto")
    with torch.no_grad():
        lm.model.model.layers[2].mlp.down_proj.weight.fill_(torch.inf)
    with pytest.raises(UsageError, match=r"layer 2 holds NaN or infinity .*forward_upper3"):
        evaluate(lm, TASK, limit=1)
