"""A grid made ready to run: its tasks found, and all checked that can be before a model loads."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lm_eval.evaluator_utils import get_sample_size
from lm_eval.tasks import TaskManager

from harness_ext import local_tasks, plugin, preflight
from harness_ext.errors import UsageError
from harness_ext.grids.cells import Cell, cells, finished
from harness_ext.grids.cost import Cost, cost
from harness_ext.grids.grid import Grid


@dataclass(frozen=True)
class Plan:
    """All cells of a grid, what each costs, and which are finished."""

    grid: Grid
    cells: tuple[Cell, ...]
    costs: Mapping[Cell, Cost]
    finished: frozenset[Cell]
    manager: TaskManager

    @property
    def todo(self) -> tuple[Cell, ...]:
        """The cells that are left, in the order in which they are run."""
        return tuple(cell for cell in self.cells if cell not in self.finished)


def plan(grid: Grid, folder: Path, overwrite: bool = False) -> Plan:
    """Find the grid's tasks, check every setting on them, and see what is finished.

    overwrite: take cells of another configuration as not there.

    Raises:
        UsageError: naming model and method, as `taskvec run` does for one of them; for a model
            without a task; and for a cell that is there in another configuration.
    """
    plugin.activate()
    for model in grid.models:
        for method in grid.methods:
            try:
                preflight.check(
                    argparse.Namespace(
                        model=plugin.MODEL,
                        model_args={**model.arguments, **method.arguments},
                        tasks=list(method.tasks),
                        num_fewshot=max(method.shots),
                        limit=grid.limit,
                        batch_size=grid.batch_size,
                        include_path=grid.include_path,
                    )
                )
            except UsageError as error:
                raise UsageError(
                    f"{grid.source}, model {model.name}, method {method.name}: {error}"
                ) from error
    names = tuple(name for method in grid.methods for name in method.tasks)
    manager = local_tasks.index(grid.include_path)
    if not all(manager.match_tasks([name]) for name in names):
        manager = TaskManager(include_path=grid.include_path)

    @cache
    def load(tasks: tuple[str, ...]) -> dict[str, int]:
        """The tasks that names stand for, with the number of their tested documents."""
        loaded = manager.load(manager.match_tasks(list(tasks)))["tasks"]
        return {
            name: len(dict(task.doc_iterator(limit=get_sample_size(task, grid.limit))))
            for name, task in loaded.items()
        }

    every = tuple(cells(grid, lambda tasks: list(load(tasks))))
    documents = {name: n for method in grid.methods for name, n in load(method.tasks).items()}
    done = frozenset(cell for cell in every if not overwrite and finished(folder, cell))
    costs = {cell: cost(cell, documents[cell.task]) for cell in every}
    return Plan(grid, every, costs, done, manager)
