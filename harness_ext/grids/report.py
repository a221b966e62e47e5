"""What `taskvec bench` shows: the grid before it runs, and the scores when it has run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from rich.table import Table
from rich.text import Text

from harness_ext.grids.cells import Cell, scores_of
from harness_ext.grids.planning import Plan

Row = tuple[str, str, int]


def grid_table(plan: Plan) -> Table:
    """A row for each model, method and number of shots: its cells, and their prompts by kind."""
    table = _table(("tasks", "seeds", "cells", "finished", "prompts"), _totals(plan))
    for row, own in _by_row(plan.cells).items():
        numbers = (
            len({cell.task for cell in own}),
            len({cell.seed for cell in own}),
            len(own),
            sum(cell in plan.finished for cell in own),
            sum(plan.costs[cell].total for cell in own),
        )
        _add(table, row, (f"{number:,}" for number in numbers))
    return table


def scores_table(cells: Sequence[Cell], folder: Path) -> Table:
    """A row for each model, method and number of shots: the mean of its tasks' first scores.

    The first score is the one that a task names first: `answer_match` in the word tasks.
    """
    found: dict[Row, dict[str, list[float]]] = {}
    for row, own in _by_row(cells).items():
        found[row] = defaultdict(list)
        for cell in own:
            for name, score in list(_scores(folder / cell.folder, cell.task).items())[:1]:
                found[row][name].append(score)
    names = list(dict.fromkeys(name for own in found.values() for name in own))
    table = _table(("cells", *names), "Means over cells: every task and seed counts alike.")
    for row, scores in found.items():
        count = sum(map(len, scores.values()))
        means = (f"{fmean(scores[name]):.3f}" if scores[name] else "–" for name in names)
        _add(table, row, (f"{count:,}", *means))
    return table


def _table(columns: Iterable[str], caption: str) -> Table:
    table = Table(caption=caption, caption_justify="left")
    table.add_column("model", overflow="fold")
    table.add_column("method", overflow="fold")
    for name in ("shots", *columns):
        table.add_column(Text(name), justify="right")
    return table


def _add(table: Table, row: Row, cells: Iterable[str]) -> None:
    model, method, shots = row
    table.add_row(Text(model), Text(method), str(shots), *cells)


def _totals(plan: Plan) -> str:
    left = [plan.costs[cell] for cell in plan.todo]
    counts = (
        (sum(cost.tested for cost in left), "tested"),
        (sum(cost.extraction for cost in left), "that vectors and heads are read from"),
        (sum(cost.development for cost in left), "to choose layers and strengths on"),
    )
    prompts = ", ".join(f"{number:,} {what}" for number, what in counts)
    return (
        f"{len(plan.todo):,} of {len(plan.cells):,} cells are left, of at most "
        f"{sum(cost.total for cost in left):,} prompts: {prompts}. Methods of a task share what "
        "is alike."
    )


def _by_row(cells: Iterable[Cell]) -> dict[Row, list[Cell]]:
    rows: dict[Row, list[Cell]] = defaultdict(list)
    for cell in cells:
        rows[cell.model.name, cell.method.name, cell.shots].append(cell)
    return rows


def _scores(folder: Path, task: str) -> dict[str, float]:
    """The scores of a cell that is there; none of one that is not."""
    for path in sorted(folder.glob("results_*.json"))[-1:]:
        return scores_of(json.loads(path.read_text(encoding="utf-8")), task)
    return {}
