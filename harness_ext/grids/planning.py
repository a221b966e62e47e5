"""A grid made ready to run: its tasks found, and all checked that can be before a model loads."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lm_eval.tasks import TaskManager

from harness_ext import plugin, preflight
from harness_ext.errors import UsageError
from harness_ext.grids.cells import Cell, cells, finished
from harness_ext.grids.cost import Cost, costs
from harness_ext.grids.grid import Grid
from harness_ext.grids.tasks import load_tasks


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


def _check_writable(folder: Path) -> None:
    """Results have to find a place before hours are spent on them."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(
            f"--output_path {folder}: {there} is no folder that can be written to. Name another."
        )


def plan(grid: Grid, folder: Path, overwrite: bool = False) -> Plan:
    """Find the grid's tasks, check every setting on them, and see what is finished.

    overwrite: take cells of another configuration as not there.

    Raises:
        UsageError: naming model and method, as `taskvec run` does for one of them, for tasks whose
            data cannot be had, and where something else is in a cell's place.
    """
    plugin.activate()
    _check_writable(folder)
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
    tasks = load_tasks(names, grid.include_path, grid.limit)
    every = tuple(cells(grid, tasks))
    done = frozenset(cell for cell in every if finished(folder, cell, overwrite))
    return Plan(grid, every, costs(every, tasks), done, tasks.manager)
