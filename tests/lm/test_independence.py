"""Answers follow from the prompt, the document and the arguments alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from harness_ext.lm import TaskVectorLM
from tests.lm.conftest import Results, answers

WORDS = "forward_upper3"
ECHO = "forward_echo"  # the same documents' queries, other answers
DRAWS = 10  # four queries stand in turn: documents 0, 4 and 8 share theirs
ARGUMENTS = {"layer": "auto", "dev": 4}
_TASKS: list[Any] = []  # keeps them alive: the model knows tasks by weak references


@pytest.fixture(scope="module")
def tasks(stock_task: Callable[..., dict[str, Any]]) -> list[Any]:
    return [WORDS, ECHO, stock_task("choose", "multiple_choice")]


@pytest.fixture(scope="module")
def alone(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    tasks: list[Any],
) -> dict[str, list[Any]]:
    """Each task's answers, run by itself with batches of one."""
    found = {}
    for task in tasks:
        name = task if isinstance(task, str) else task["task"]
        results = evaluate(steered(**ARGUMENTS), task, limit=DRAWS)
        found[name] = answers(results, name)
    return found


def same(found: Any, expected: Any) -> bool:
    """Equal texts; log-probabilities may differ by rounding, which depends on a batch's shape."""
    if isinstance(expected, float):
        return bool(found == pytest.approx(expected, abs=1e-3))
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


def test_one_prompt_gets_an_answer_for_each_task_and_draw(alone: dict[str, list[Any]]) -> None:
    draws = [alone[WORDS][number] for number in (0, 4, 8)]
    assert len({str(answer) for answer in draws}) > 1
    assert alone[WORDS] != alone[ECHO]


@pytest.mark.parametrize("batch_size", [1, 3, 5, "auto"])
def test_tasks_with_the_same_prompts_answer_together_as_they_do_alone(
    batch_size: int | str,
    alone: dict[str, list[Any]],
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    tasks: list[Any],
) -> None:
    lm = steered(**ARGUMENTS, batch_size=batch_size, max_batch_size=4, max_length=96)
    found = evaluate(lm, *tasks, limit=DRAWS)
    for name, expected in alone.items():
        assert same(answers(found, name), expected)


def test_an_automatic_batch_size_is_found_once_for_each_kind_of_request(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    tasks: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lm = steered(layer=1, batch_size="auto")
    lengths: list[int] = []

    def detect(requests: Any) -> int:
        [(_, ids, _)] = requests
        lengths.append(len(ids))
        return 3

    monkeypatch.setattr(lm, "_detect_batch_size", detect)
    found = evaluate(lm, *tasks, limit=DRAWS)
    assert len(lengths) == 2
    assert lm.batch_size == "auto"
    assert found["config"]["batch_sizes"] == [3]


def test_the_order_of_tasks_does_not_matter(
    alone: dict[str, list[Any]],
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    tasks: list[Any],
) -> None:
    found = evaluate(steered(**ARGUMENTS), *reversed(tasks), limit=DRAWS)
    for name, expected in alone.items():
        assert same(answers(found, name), expected)


def test_a_document_is_answered_the_same_whichever_others_are_asked(
    alone: dict[str, list[Any]],
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
) -> None:
    lm = steered(**ARGUMENTS)
    fewer = evaluate(lm, WORDS, limit=2)
    assert answers(fewer, WORDS) == alone[WORDS][:2]
    chosen = evaluate(lm, WORDS, samples={WORDS: [3, 5]})
    assert answers(chosen, WORDS) == [alone[WORDS][3], alone[WORDS][5]]


def test_requests_are_answered_the_same_in_any_order(
    steered: Callable[..., TaskVectorLM], manager: TaskManager
) -> None:
    lm = steered(**ARGUMENTS, batch_size=3)
    requests = list(_requests(manager, rank=0, world_size=1))
    forward = lm.generate_until(requests, disable_tqdm=True)
    backward = lm.generate_until(requests[::-1], disable_tqdm=True)
    assert backward[::-1] == forward


def test_processes_that_share_the_documents_answer_as_one(
    steered: Callable[..., TaskVectorLM], manager: TaskManager
) -> None:
    one = steered(**ARGUMENTS).generate_until(
        list(_requests(manager, rank=0, world_size=1)), disable_tqdm=True
    )
    for rank in range(3):
        part = list(_requests(manager, rank=rank, world_size=3))
        found = steered(**ARGUMENTS).generate_until(part, disable_tqdm=True)
        assert found == one[rank::3]


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tokenizers_padding_side_does_not_matter(
    side: str,
    alone: dict[str, list[Any]],
    folder: Path,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    tasks: list[Any],
) -> None:
    lm = steered(**ARGUMENTS, batch_size=4)
    lm.tokenizer.padding_side = side
    found = evaluate(lm, *tasks, limit=DRAWS)
    for name, expected in alone.items():
        assert same(answers(found, name), expected)


def test_a_second_evaluation_of_one_task_object_follows_its_new_settings(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results], manager: TaskManager
) -> None:
    task = manager.load([WORDS])["tasks"][WORDS]
    lm = steered(**ARGUMENTS, average=2)
    found = {}
    for shots in (0, 2):
        for seed in (1, 2):
            options = {"num_fewshot": shots, "fewshot_random_seed": seed, "limit": 4}
            task.set_config("num_fewshot", None)
            found[shots, seed] = evaluate(lm, WORDS, **options)
            fresh = evaluate(steered(**ARGUMENTS, average=2), WORDS, **options)
            assert found[shots, seed]["samples"] == fresh["samples"]
            assert (
                found[shots, seed]["config"]["steering"]["tasks"]
                == fresh["config"]["steering"]["tasks"]
            )


def _requests(manager: TaskManager, rank: int, world_size: int) -> Iterator[Any]:
    """The first documents' requests of both word tasks, as lm-eval deals them to a process."""
    for name in (WORDS, ECHO):
        task = manager.load([name])["tasks"][name]
        task.set_fewshot_seed(1234)
        task.build_all_requests(limit=9, rank=rank, world_size=world_size)
        _TASKS.append(task)
        yield from task.instances
