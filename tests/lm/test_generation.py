"""Steered generation against a slow implementation of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.tasks import TaskManager

from harness_ext.lm import TaskVectorLM
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle, word_prompt

SEED = 1234  # lm-eval's few-shot seed where none is given
DOCUMENTS = 6


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture
def task(manager: TaskManager) -> Any:
    task = manager.load(["forward_upper3"])["tasks"]["forward_upper3"]
    task.set_fewshot_seed(SEED)
    return task


def documents(task: Any) -> list[dict[str, Any]]:
    return [task.test_docs()[number] for number in range(DOCUMENTS)]


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_an_answer_is_that_of_the_state_of_the_querys_own_demonstrations(
    layer: int,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    oracle: Oracle,
    task: Any,
) -> None:
    found = evaluate(steered(layer=layer), "forward_upper3", limit=DOCUMENTS)
    expected, plain = [], []
    for document in documents(task):
        *demonstrations, dummy = task.sampler.order(document)[:4]
        vector = oracle.state(word_prompt(demonstrations, dummy), layer)
        prompt = word_prompt([], document)
        expected.append([[oracle.answer(prompt, layer, vector)]])
        plain.append([[oracle.answer(prompt)]])
    assert answers(found, "forward_upper3") == expected
    assert plain != expected


@pytest.mark.parametrize(("shots", "demos"), [(2, 3), (5, 3)])
def test_in_a_few_shot_prompt_only_the_last_cue_is_steered(
    shots: int,
    demos: int,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    oracle: Oracle,
    task: Any,
) -> None:
    lm = steered(layer=1, demos=demos)
    found = evaluate(lm, "forward_upper3", limit=DOCUMENTS, num_fewshot=shots)
    expected = []
    for document in documents(task):
        order = task.sampler.order(document)
        dummy = order[max(shots, demos)]
        vector = oracle.state(word_prompt(order[:demos], dummy), 1)
        expected.append([[oracle.answer(word_prompt(order[:shots], document), 1, vector)]])
    assert answers(found, "forward_upper3") == expected


def test_an_added_vector_is_multiplied_by_its_strength(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    oracle: Oracle,
    task: Any,
) -> None:
    lm = steered(layer=1, mode="add", strength=2.5)
    found = evaluate(lm, "forward_upper3", limit=DOCUMENTS)
    expected = []
    for document in documents(task):
        *demonstrations, dummy = task.sampler.order(document)[:4]
        vector = oracle.state(word_prompt(demonstrations, dummy), 1)
        expected.append([[oracle.answer(word_prompt([], document), 1, vector, 2.5)]])
    assert answers(found, "forward_upper3") == expected


def test_with_two_dummy_queries_the_vector_is_the_mean_of_two_extractions(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    oracle: Oracle,
    task: Any,
) -> None:
    found = evaluate(steered(layer=2, queries=2), "forward_upper3", limit=DOCUMENTS)
    expected = []
    for document in documents(task):
        *demonstrations, first, second = task.sampler.order(document)[:5]
        states = [oracle.state(word_prompt(demonstrations, d), 2) for d in (first, second)]
        vector = torch.stack(states).mean(dim=0)
        expected.append([[oracle.answer(word_prompt([], document), 2, vector)]])
    assert answers(found, "forward_upper3") == expected


def test_strength_0_changes_nothing_to_the_last_bit(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    tasks = ["forward_upper3", stock_task("choose", "multiple_choice")]
    silent = evaluate(steered(layer=1, mode="add", strength=0), *tasks, limit=DOCUMENTS)
    plain = evaluate(steered(method="none"), *tasks, limit=DOCUMENTS)
    assert silent["samples"] == plain["samples"]
