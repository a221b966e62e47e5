"""What cells cost, in prompts that the model reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness_ext.combining import HEADS
from harness_ext.config import SteeringConfig, parse_model_args
from harness_ext.grids.cells import Cell
from harness_ext.grids.tasks import LoadedTasks
from harness_ext.methods.selection import needs_development

_PASSES = 5
"""Plain forwards of a development prompt that trying all layers on it costs, about."""


@dataclass(frozen=True)
class Cost:
    """Prompts of a cell.

    tested: those that are answered. extraction: those that vectors or heads are read from, as far
    as no earlier cell of the task has read them. development: those that a layer or strength is
    chosen on, each of which is run with every candidate. work: what the time goes by: the pairs of
    words in all forwards, the query counting as one.
    """

    tested: int
    extraction: int
    development: int
    work: int

    @property
    def total(self) -> int:
        """All prompts."""
        return self.tested + self.extraction + self.development


def costs(cells: Iterable[Cell], tasks: LoadedTasks) -> dict[Cell, Cost]:
    """The cost of each cell, run in this order."""
    known: set[object] = set()
    return {cell: _cost(cell, tasks.tasks[cell.task].documents, known) for cell in cells}


def _cost(cell: Cell, documents: int, known: set[object]) -> Cost:
    """known: prompts that were read before, by what they are a function of; these are added."""
    steering, _ = parse_model_args(cell.method.arguments)
    short, long = cell.shots + 1, steering.demos + 1
    if not steering.steered or steering.vectors is not None:
        return Cost(documents, 0, 0, documents * short)
    extraction = 0
    for kind, episodes in _read_from(steering, documents, cell.shots):
        cues = max(cell.shots, steering.demos)
        key = (cell.model, cell.task, cell.seed, kind, episodes, steering.demos, steering.queries)
        if (*key, cues) not in known:
            known.add((*key, cues))
            extraction += episodes * steering.queries
    development = steering.dev if _chooses(steering) else 0
    if steering.method == "random":
        development *= steering.draws
    work = documents * short + extraction * long + development * _PASSES * short
    return Cost(documents, extraction, development, work)


def _chooses(steering: SteeringConfig) -> bool:
    return steering.ablate == "none" and needs_development(steering)


def _read_from(steering: SteeringConfig, documents: int, shots: int) -> list[tuple[str, int]]:
    """Kinds of episodes that a method reads, and how many."""
    if steering.ablate != "none" or steering.method in HEADS:
        return [("heads", steering.average)]
    if steering.average:
        return [("average", steering.average)]
    found = [("tested", documents)]
    if _chooses(steering) or (steering.method == "tv_m" and shots):
        found.append(("development", steering.dev))
    return found
