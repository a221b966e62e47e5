"""A leaderboard on a terminal of any width from 60 columns on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness_ext.compare import tables
from harness_ext.compare.board_cells import Score
from harness_ext.compare.board_columns import Column
from harness_ext.compare.board_formats import (
    ABSENT,
    columns_shown,
    heading,
    hidden_tasks,
    legend,
    shown,
    value,
)
from harness_ext.compare.board_rows import Row
from harness_ext.compare.leaderboard import Leaderboard
from harness_ext.compare.statistics import Interval
from harness_ext.compare.table1 import ModelTable, Table1
from harness_ext.compare.text import number

STAR = "*"
NAME = 40
# An interval such as 0.84–0.97 and two spaces.
_CELL = 11
# The table of gaps with its intervals beside the means.
_ONE_LINE = 90


def show(console: Console, board: Leaderboard, table: Table1 | None, all_tasks: bool) -> None:
    """Print the leaderboard, in blocks of as many columns as fit beside the rows' names."""
    columns = columns_shown(board, all_tasks)
    console.print(Text(f"Leaderboard, {shown(board.metric)}", style="bold"))
    for block in _blocks(console, board, columns):
        console.print(_board_table(board, block))
    console.print(_notes([hidden_tasks(board, columns), *board.notes]))
    console.print(Text(_flowing(legend(STAR)), style="dim"))
    if table is not None:
        for model in table.models:
            console.print(_maps(model, narrow=console.width < _ONE_LINE))
        console.print(Text(_flowing(tables.LEGEND), style="dim"))


def _blocks(
    console: Console, board: Leaderboard, columns: Sequence[Column]
) -> Iterator[Sequence[Column]]:
    names = max(len(line) for row in board.rows for line in _name(row).plain.split("\n"))
    room = console.width - min(names, NAME) - 2
    block: list[Column] = []
    for column in columns:
        if block and sum(map(_width, (*block, column), [board] * (len(block) + 1))) > room:
            yield block
            block = []
        block.append(column)
    yield block


def _width(column: Column, board: Leaderboard) -> int:
    longest = max(map(len, _heading(column, board).split("\n")))
    return max(_CELL, longest + 2)


def _heading(column: Column, board: Leaderboard) -> str:
    """In lines of a cell's width where it can be parted."""
    return heading(column, board).replace("_", "_\n", 1).replace(" (", "\n(").replace(", ", ",\n")


def _board_table(board: Leaderboard, columns: Sequence[Column]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("", overflow="fold", max_width=NAME)
    for column in columns:
        table.add_column(Text(_heading(column, board)), justify="right", overflow="fold")
    for row in board.rows:
        cells = [_cell(board.scores.get((row, column.name))) for column in columns]
        table.add_row(_name(row), *cells)
    return table


def _name(row: Row) -> Text:
    how = " · ".join(filter(None, (row.label, row.variant)))
    return Text.assemble(shown(row.model, NAME), "\n", (f"  {shown(how)}", "dim"))


def _cell(score: Score | None) -> Text:
    if score is None:
        return Text(ABSENT)
    mark = STAR if score.best else " "
    estimate = (f"{value(score.interval, ends=False)}{mark}", "bold" if score.best else "")
    return Text.assemble(estimate, "\n", (_ends(score.interval), "dim"))


def _ends(interval: Interval) -> str:
    if not interval.is_known:
        return "no interval "
    return f"{number(interval.low)}–{number(interval.high)} "


def _maps(model: ModelTable, narrow: bool) -> RenderableType:
    """Accuracies by map, and the gaps; where it is narrow, these have intervals below means."""
    parts: list[RenderableType] = [Text(f"\nBijection gaps, {shown(model.model)}", style="bold")]
    for place, (head, rows) in enumerate((tables.accuracy_table(model), tables.gap_table(model))):
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
        for name in head:
            table.add_column(Text(name), overflow="fold")
        for row in rows:
            cells = [shown(cell, NAME) for cell in row]
            if place and narrow:
                cells = [cell.replace(" [", "\n[") for cell in cells]
            table.add_row(*map(Text, cells))
        if rows:
            parts.append(table)
    return Group(*parts, _notes(model.notes))


def _notes(notes: Sequence[str]) -> RenderableType:
    texts = [Text(f"- {shown(note, 2000)}") for note in notes if note]
    return Padding(Group(*texts), (0, 0, 1 if texts else 0, 0))


def _flowing(text: str) -> str:
    """Paragraphs without the line breaks of the source, which the terminal sets itself."""
    return "\n".join(" ".join(part.split()) for part in text.replace("`", "").split("\n\n"))
