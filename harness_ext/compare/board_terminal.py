"""A leaderboard on a terminal of any width from 30 columns on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from harness_ext.compare import tables
from harness_ext.compare.blocks import NAME, Cells, blocks
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
# Tables of maps with their intervals beside the means.
_ONE_LINE = 90


def show(console: Console, board: Leaderboard, table: Table1 | None, all_tasks: bool) -> None:
    """Print the leaderboard, in blocks of as many columns as fit beside the rows' names."""
    columns = columns_shown(board, all_tasks)
    console.print(Text(f"Leaderboard, {shown(board.metric)}", style="bold"))
    for block in _board_tables(console.width, board, columns):
        console.print(block)
    console.print(_notes([hidden_tasks(board, columns), *board.notes]))
    console.print(Text(_flowing(legend(STAR)), style="dim"))
    if table is not None:
        for model in table.models:
            console.print(_maps(model, console.width))
        console.print(Text(_flowing(tables.LEGEND), style="dim"))


def _board_tables(
    width: int, board: Leaderboard, columns: Sequence[Column]
) -> Iterator[RenderableType]:
    found = [
        Cells(
            Text(_heading(column, board)),
            [_cell(board.scores.get((row, column.name))) for row in board.rows],
            "right",
        )
        for column in columns
    ]
    return blocks(width, Text(""), [_name(row) for row in board.rows], found)


def _heading(column: Column, board: Leaderboard) -> str:
    """In lines of a cell's width where it can be parted."""
    return heading(column, board).replace("_", "_\n", 1).replace(" (", "\n(").replace(", ", ",\n")


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


def _maps(model: ModelTable, width: int) -> RenderableType:
    """Accuracies by map, and the gaps; where it is narrow, these have intervals below means."""
    parts: list[RenderableType] = [Text(f"\nBijection gaps, {shown(model.model)}", style="bold")]
    for named, (head, rows) in ((2, tables.accuracy_table(model)), (1, tables.gap_table(model))):
        cells = [[shown(cell, NAME) for cell in row] for row in rows]
        if width < _ONE_LINE:
            cells = [["\n  ".join(row[:named]), *row[named:]] for row in cells]
            cells = [[cell.replace(" [", "\n[") for cell in row] for row in cells]
            head = ("\n  ".join(head[:named]), *head[named:])
        names, *columns = zip(head, *cells, strict=True)
        if rows:
            found = [Cells(Text(own[0]), [Text(cell) for cell in own[1:]]) for own in columns]
            parts += blocks(width, Text(names[0]), [Text(name) for name in names[1:]], found)
    return Group(*parts, _notes(model.notes))


def _notes(notes: Sequence[str]) -> RenderableType:
    texts = [Text(f"- {shown(note, 2000)}") for note in notes if note]
    return Padding(Group(*texts), (0, 0, 1 if texts else 0, 0))


def _flowing(text: str) -> str:
    """Paragraphs without the line breaks of the source, which the terminal sets itself."""
    return "\n".join(" ".join(part.split()) for part in text.replace("`", "").split("\n\n"))
