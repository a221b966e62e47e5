"""The leaderboard as the page's table: means first, and all that sorting and filtering need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness_ext.compare.board_cells import Score
from harness_ext.compare.board_columns import OVERALL, Column, categories_of
from harness_ext.compare.board_rows import Row
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.leaderboard import Leaderboard
from harness_ext.compare.text import count, listed, number

MEANS = "means"


@dataclass(frozen=True)
class HeadCell:
    """A column's head. sets: the numbers of the sets of columns that it belongs to."""

    column: Column
    sets: str
    about: str

    @property
    def first(self) -> str:
        """The order in which the column is sorted first: the best on top."""
        return "descending" if self.column.higher_is_better else "ascending"


@dataclass(frozen=True)
class BodyCell:
    """A score as the table shows it. shade: 0 to 10 where scores lie between 0 and 1, else 0."""

    estimate: str
    ends: str
    value: str
    shade: int
    best: bool
    about: str
    note: str


@dataclass(frozen=True)
class BodyRow:
    """A row with the numbers of its model, method and shots among the choices; None: no score."""

    row: Row
    choices: Mapping[str, int]
    cells: tuple[BodyCell | None, ...]


@dataclass(frozen=True)
class BoardTable:
    """choices: by filter, what can be chosen, in the order of the numbers that rows hold.

    means: how many of the columns are means: they come first.
    """

    head: tuple[HeadCell, ...]
    rows: tuple[BodyRow, ...]
    choices: Mapping[str, tuple[str, ...]]
    means: int


def board_table(board: Leaderboard, evaluations: Iterable[Evaluation]) -> BoardTable:
    """The table of a leaderboard made from the evaluations."""
    columns = sorted(board.columns, key=_means_first)
    sets = {MEANS: {column.name for column in columns if column.kind == "mean"}}
    for category, tasks in categories_of(evaluations).items():
        names = {c.name for c in columns if c.name == category or c.name in tasks}
        if names:
            sets[category] = names
    choices = {
        "model": _choices(row.model for row in board.rows),
        "method": _choices(row.method for row in board.rows),
        "shots": _choices(
            _shots(row) for row in sorted(board.rows, key=lambda row: row.shots or 0)
        ),
        "columns": tuple(sets),
    }
    return BoardTable(
        head=tuple(
            HeadCell(
                column,
                " ".join(str(n) for n, names in enumerate(sets.values()) if column.name in names),
                _about_column(column),
            )
            for column in columns
        ),
        rows=tuple(
            BodyRow(
                row,
                {
                    "model": choices["model"].index(row.model),
                    "method": choices["method"].index(row.method),
                    "shots": choices["shots"].index(_shots(row)),
                },
                tuple(_cell(column, board.scores.get((row, column.name))) for column in columns),
            )
            for row in board.rows
        ),
        choices=choices,
        means=sum(column.kind == "mean" for column in columns),
    )


def _means_first(column: Column) -> tuple[bool, bool]:
    return (column.kind != "mean", column.kind == "mean" and column.name != OVERALL)


def _choices(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _shots(row: Row) -> str:
    return "not told" if row.shots is None else str(row.shots)


def _about_column(column: Column) -> str:
    which = "" if column.higher_is_better else ", lower is better"
    if column.kind == "mean":
        return f"{count(len(column.tasks), 'task')}{which}"
    return f"{column.metric}{which}"


def _cell(column: Column, score: Score | None) -> BodyCell | None:
    if score is None:
        return None
    interval = score.interval
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    share = column.is_share and 0 <= interval.estimate <= 1
    return BodyCell(
        estimate=number(interval.estimate),
        ends=f"{number(interval.low)} to {number(interval.high)}" if known else "no interval",
        value=f"{interval.estimate:.6g}",
        shade=round(10 * interval.estimate) if share else 0,
        best=score.best,
        about=_about_score(score),
        note=score.note,
    )


def _about_score(score: Score) -> str:
    parts: Sequence[str] = [
        count(score.documents, "document") if score.documents else "",
        count(score.clusters, "cluster") if score.clusters else "",
        f"few-shot seed {listed(score.seeds)}" if score.seeds else "",
    ]
    return ", ".join(filter(None, parts))
