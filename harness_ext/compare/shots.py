"""Task vectors at 0 to 4 shots: what is recorded of them, and the differences the paper claims.

Table 2 of Dong et al. 2026 (arXiv 2506.09048) compares, at each number of shots, the model itself
with a task vector at the last cue (TaskV) and with vectors at every cue (TaskV-M, TaskV-MS). With
no demonstrations the last cue is the only one, and the three are one method.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness_ext.compare.board_cells import Cell, make_cell, mean_score
from harness_ext.compare.board_columns import Column
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.gap import SCORE
from harness_ext.compare.outputs import PLAIN_DTYPE
from harness_ext.compare.reading import read
from harness_ext.compare.statistics import Interval, task_mean_interval
from harness_ext.errors import UsageError

BASELINE, TASKV, TASKV_M, TASKV_MS = "baseline", "TaskV", "TaskV-M", "TaskV-MS"
METHODS: Mapping[str, str] = {BASELINE: "none", TASKV: "tv", TASKV_M: "tv_m", TASKV_MS: "tv_ms"}
AT_EVERY_CUE = (TASKV_M, TASKV_MS)
SHOTS = range(5)
GROUPS = ("bijection", "forward", "inverse")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: one method above another at so many shots."""

    above: str
    below: str
    shots: range
    there: str


CLAIMS = (
    Claim(TASKV, BASELINE, SHOTS, "at every number of shots"),
    Claim(TASKV_M, TASKV, SHOTS[1:], "by about 0.01 to 0.02 on Llama-13B"),
    Claim(TASKV_MS, TASKV, SHOTS[1:], "by about 0.01 to 0.02 on Llama-13B"),
)
CELLS = tuple(
    (name, shots) for name in METHODS for shots in SHOTS if shots or name not in AT_EVERY_CUE
)


@dataclass(frozen=True)
class ShotCells:
    """What is recorded of one model, by the method's name, shots and task."""

    model: str
    cells: Mapping[tuple[str, int, str], Cell]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the groups that are recorded in some cell, group by group."""
        names = sorted({task for _, _, task in self.cells})
        return tuple(t for group in GROUPS for t in names if t.startswith(f"{group}_"))

    def of(self, name: str, shots: int, tasks: Iterable[str]) -> list[Cell]:
        """The cells of some tasks that are recorded all."""
        return [self.cells[name, shots, task] for task in tasks]

    def complete(self, group: str) -> list[str]:
        """The tasks of a group that are recorded in every cell."""
        return [
            task
            for task in self.tasks
            if task.startswith(f"{group}_") and all((*cell, task) in self.cells for cell in CELLS)
        ]

    def evaluations(self, names: Iterable[str]) -> list[Evaluation]:
        """Those behind the cells of some methods."""
        return [
            each
            for (name, *_), cell in self.cells.items()
            if name in names
            for each in cell.evaluations
        ]


def read_models(folder: Path) -> list[ShotCells]:
    """What is recorded of every model in the folder; raises as `section` does."""
    reading = read([folder]) if folder.is_dir() else None
    for problem in reading.problems if reading else ():
        raise UsageError(str(problem))
    names = {method: name for name, method in METHODS.items()}
    found: dict[str, dict[tuple[str, int, str], list[Evaluation]]] = {}
    for each in reading.evaluations if reading else ():
        name, shots = names.get(each.method, ""), each.shots
        if shots is not None and (name, shots) in CELLS:
            own = found.setdefault(_model(each), {})
            own.setdefault((name, shots, each.task), []).append(each)
    return [ShotCells(model, _cells(own)) for model, own in found.items()]


def _model(evaluation: Evaluation) -> str:
    """Its name, with the dtype where that is not the usual one."""
    dtype = evaluation.settings.get("dtype", PLAIN_DTYPE)
    return evaluation.model if dtype == PLAIN_DTYPE else f"{evaluation.model}, {dtype}"


def _cells(
    evaluations: Mapping[tuple[str, int, str], Sequence[Evaluation]],
) -> dict[tuple[str, int, str], Cell]:
    cells: dict[tuple[str, int, str], Cell] = {}
    first: dict[str, Cell] = {}
    for (name, shots, task), own in evaluations.items():
        cell = make_cell(Column(task, "task", (task,), SCORE), own)
        if cell is None or cell.answers is None:
            raise UsageError(
                f"{own[0].path}: no {SCORE} of the answers to {task}. Record it again."
            )
        other = first.setdefault(task, cell)
        if other.answers is None or other.answers.means.keys() != cell.answers.means.keys():
            raise UsageError(
                f"{other.evaluations[0].path} and {own[0].path} do not test the same documents of "
                f"{task}. Run and record both with the same version of the tasks and --limit."
            )
        cells[name, shots, task] = cell
    return cells


def mean_accuracy(cells: Sequence[Cell]) -> Interval:
    """The mean over tasks of the share of right answers."""
    return mean_score(cells).interval


def mean_difference(above: Sequence[Cell], below: Sequence[Cell]) -> Interval:
    """The mean over tasks of one accuracy minus another, paired by document."""
    sums = [_differences(*pair) for pair in zip(above, below, strict=True)]
    return task_mean_interval(
        [list(own.values()) for own in sums],
        extremes=(-1, 1),
        names=[list(own) for own in sums],
    )


def _differences(above: Cell, below: Cell) -> dict[str, tuple[float, int]]:
    """By cluster, the sum and the number of the differences of its documents."""
    ours, theirs = above.answers, below.answers
    found: dict[str, tuple[float, int]] = {}
    if ours is None or theirs is None:
        return found
    for document, mean in ours.means.items():
        cluster = ours.clusters[document]
        total, asked = found.get(cluster, (0.0, 0))
        found[cluster] = (total + mean - theirs.means[document], asked + 1)
    return found
