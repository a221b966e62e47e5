"""Runs the cells of a grid: lm-eval's evaluator on one loaded model after the other."""

from __future__ import annotations

import logging
import shutil
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch.distributed
from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

from harness_ext import TaskVectorLM, plugin
from harness_ext.config import parse_model_args
from harness_ext.errors import UsageError
from harness_ext.grids.cells import KEY, Cell, OutputError, damage, save, scores_of
from harness_ext.grids.environment import described_once
from harness_ext.grids.grid import Grid, Model
from harness_ext.grids.processes import FailedElsewhereError, meet, meet_first

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """A cell that was run: its scores by metric, or what kept it from running, in one line."""

    cell: Cell
    scores: dict[str, float]
    error: str | None = None


def run(
    grid: Grid, todo: Sequence[Cell], folder: Path, manager: TaskManager, overwrite: bool = False
) -> Iterator[Done]:
    """Evaluate the cells, each of them in the folder before it is told.

    A cell that raises an exception is told with its message, and the next one is run; where in the
    code it was raised is logged, at debug level.

    overwrite: put cells in the place of those that are there when they are finished.

    Raises :class:`UsageError` where a model cannot be loaded, or a cell cannot be written.
    """
    with described_once():
        for model, own in groupby(todo, key=lambda cell: cell.model):
            lm = _load(model, grid.batch_size)
            for cell in _as_on_first_process(list(own), lm.rank):
                yield _run(lm, cell, folder, manager, overwrite)


def _load(model: Model, batch_size: int | str) -> TaskVectorLM:
    arguments = dict(model.arguments)
    pretrained = arguments.pop("pretrained", None)
    return TaskVectorLM(pretrained, method="none", batch_size=batch_size, **arguments)


def _as_on_first_process(todo: list[Cell], rank: int) -> list[Cell]:
    """The cells that the first process found unfinished: a later one may see some of its work."""
    if not torch.distributed.is_initialized():
        return todo
    told: list[Any] = [todo if rank == 0 else None]
    torch.distributed.broadcast_object_list(told)
    cells: list[Cell] = told[0]
    return cells


def _run(lm: TaskVectorLM, cell: Cell, folder: Path, manager: TaskManager, overwrite: bool) -> Done:
    try:
        scores = _evaluate(lm, cell, folder, manager, overwrite)
        meet()
    except OutputError:
        raise
    except FailedElsewhereError as error:
        return Done(cell, {}, str(error))
    except Exception as error:
        log.debug("%s", cell, exc_info=True)
        failed = _in_one_line(error)
        meet(failed)
        return Done(cell, {}, failed)
    return Done(cell, scores)


def _in_one_line(error: Exception) -> str:
    """A user's mistake by its message alone, anything else with its type."""
    mistake = isinstance(error, UsageError)
    text = str(error) if mistake else "".join(traceback.format_exception_only(error))
    return " ".join(text.split())


def _evaluate(
    lm: TaskVectorLM, cell: Cell, folder: Path, manager: TaskManager, overwrite: bool
) -> dict[str, float]:
    """Save the cell, and return its scores by metric; none where another process has them."""
    tracker = EvaluationTracker()
    results = simple_evaluate(
        _steered(lm, cell),
        tasks=[cell.task],
        num_fewshot=cell.shots,
        limit=cell.limit,
        task_manager=manager,
        evaluation_tracker=tracker,
        random_seed=cell.seed,
        numpy_random_seed=cell.seed,
        torch_random_seed=cell.seed,
        fewshot_random_seed=cell.seed,
    )
    meet()  # what failed in another process is not kept
    if results is None:
        return {}
    results["config"] |= {
        "model": plugin.MODEL,
        "model_args": {**cell.model.arguments, **cell.method.arguments},
        "batch_size": lm.batch_size,
        KEY: cell.configuration,
    }
    save(folder, cell, lambda place: _write(results, tracker, cell, place), overwrite)
    return scores_of(results, cell.task)


def _steered(lm: TaskVectorLM, cell: Cell) -> TaskVectorLM:
    steering, _ = parse_model_args(cell.method.arguments)
    # Vectors from a file were drawn when they were saved.
    drawn = steering.steered and steering.vectors is None
    other = lm.with_steering(**cell.method.arguments, **({"seed": cell.seed} if drawn else {}))
    for name in ("generate_until", "loglikelihood", "loglikelihood_rolling"):
        # lm-eval's bar over the requests of one cell would break the grid's own.
        setattr(other, name, partial(getattr(other, name), disable_tqdm=True))
    meet_first(other)
    return other


def _write(results: dict[str, Any], tracker: EvaluationTracker, cell: Cell, place: Path) -> None:
    """lm-eval's own files, as `lm_eval --output_path --log_samples` leaves them, in `place`."""
    tracker.output_path = str(place)
    general = tracker.general_config_tracker
    general.model_source = plugin.MODEL
    general.model_name = str(cell.model.arguments.get("pretrained", cell.model.name))
    general.model_name_sanitized = "files"
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)
    # lm-eval only logs an error where it could not write.
    written = place / general.model_name_sanitized
    for path in sorted(written.glob("*")):
        path.rename(place / path.name)
    shutil.rmtree(written, ignore_errors=True)
    reason = damage(place, cell.task)
    if reason:
        raise UsageError(f"lm-eval could not write the results of {cell.task}: {reason}")
