"""What steering costs over given prompts, and what a reusable vector saves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance

from harness_ext.lm import TaskVectorLM
from harness_ext.steering.task_context import watch_tasks

from .conftest import ratio

TASK, N, BATCH = "forward_plural", 48, 16
KINDS = ("loglikelihood", "generate_until")

Ask = Callable[[], object]


@pytest.fixture(scope="module")
def lm(anatomy: Any, tokenizer: Any) -> TaskVectorLM:
    return TaskVectorLM(
        pretrained=anatomy.model, tokenizer=tokenizer, batch_size=BATCH, method="none"
    )


@pytest.fixture(scope="module")
def vectors(lm: TaskVectorLM, manager: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the task's reusable vector, the mean of 50 episodes."""
    watch_tasks()
    folder = tmp_path_factory.mktemp("vectors")
    maker = lm.with_steering(average=50, save_vectors=str(folder))
    task = built(manager, 0)
    maker.generate_until(task.instances[:1], disable_tqdm=True)
    return folder


def built(manager: Any, shots: int) -> Any:
    task = manager.load(TASK)["tasks"][TASK]
    task.set_fewshot_seed(1234)
    task.set_config("num_fewshot", shots)
    task.build_all_requests(limit=N)
    return task


def asking(lm: TaskVectorLM, task: Any, kind: str) -> Ask:
    """Answers the task's prompts: by generation, or by scoring the right answer."""
    watch_tasks()
    requests = task.instances
    if kind == "loglikelihood":
        requests = [
            Instance(
                request_type=kind,
                doc=own.doc,
                arguments=(own.args[0], f" {own.doc['target']}"),
                idx=0,
                metadata=own.metadata,
            )
            for own in task.instances
        ]
    return lambda: (task, getattr(lm, kind)(requests, disable_tqdm=True))


@pytest.mark.parametrize("kind", KINDS)
def test_steering_given_prompts_costs_next_to_nothing(
    lm: TaskVectorLM, vectors: Path, manager: Any, benchmark: Any, kind: str
) -> None:
    task = built(manager, 0)
    steered = asking(lm.with_steering(vectors=str(vectors)), task, kind)
    plain = asking(lm, task, kind)
    assert steered()[1] != plain()[1]
    measured = ratio(steered, plain, bound=1.05, rounds=30)
    benchmark.extra_info[f"steered / unsteered, {kind}"] = round(measured, 3)
    benchmark.pedantic(steered, rounds=1)
    assert measured <= 1.05


@pytest.mark.parametrize("kind", KINDS)
def test_a_reusable_vector_is_faster_than_ten_demonstrations(
    lm: TaskVectorLM, vectors: Path, manager: Any, benchmark: Any, kind: str
) -> None:
    bound = 5.0 if kind == "loglikelihood" else 1.0
    icl = asking(lm, built(manager, 10), kind)
    # Built last: of several tasks of one name, a steered model knows the latest.
    steered = asking(lm.with_steering(vectors=str(vectors)), built(manager, 0), kind)
    measured = 1 / ratio(steered, icl, bound=1 / bound, rounds=10)
    benchmark.extra_info[f"10-shot ICL / zero-shot with a reusable vector, {kind}"] = round(
        measured, 2
    )
    benchmark.pedantic(steered, rounds=1)
    assert measured >= bound
