"""A leaderboard on a terminal of any width from 30 columns on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group, JustifyMethod, RenderableType
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
# Tables of maps with their intervals beside the means.
_ONE_LINE = 90


@dataclass(frozen=True)
class _Cells:
    """A column of a table that is parted in blocks: its heading, and its cells row by row."""

    heading: Text
    cells: Sequence[Text]
    justify: JustifyMethod = "left"


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
        _Cells(
            Text(_heading(column, board)),
            [_cell(board.scores.get((row, column.name))) for row in board.rows],
            "right",
        )
        for column in columns
    ]
    return _blocks(width, Text(""), [_name(row) for row in board.rows], found)


def _blocks(
    width: int, corner: Text, names: Sequence[Text], columns: Sequence[_Cells]
) -> Iterator[RenderableType]:
    """Tables below each other, each with the names and as many columns as fit beside them."""
    names_width = min(_width((corner, *names)), NAME, width // 2)
    block: list[_Cells] = []
    for column in columns:
        if block and names_width + _span(*block, column) > width:
            yield _table(width, corner, names, block)
            block = []
        block.append(column)
    yield _table(width, corner, names, block)


def _table(width: int, corner: Text, names: Sequence[Text], columns: Sequence[_Cells]) -> Table:
    """One block; where not even one column fits beside the names, these are broken first."""
    left = max(width - _span(*columns), width // 3)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(corner, overflow="fold", max_width=min(left, NAME))
    for column in columns:
        table.add_column(column.heading, overflow="fold", justify=column.justify)
    for name, *cells in zip(names, *(column.cells for column in columns), strict=True):
        table.add_row(name, *cells)
    return table


def _span(*columns: _Cells) -> int:
    """Two spaces more than the texts for each column, and a space at either edge of the table."""
    return 2 + sum(2 + _width((column.heading, *column.cells)) for column in columns)


def _width(texts: Sequence[Text]) -> int:
    return max(cell_len(line) for text in texts for line in text.plain.split("\n"))


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
            found = [_Cells(Text(own[0]), [Text(cell) for cell in own[1:]]) for own in columns]
            parts += _blocks(width, Text(names[0]), [Text(name) for name in names[1:]], found)
    return Group(*parts, _notes(model.notes))


def _notes(notes: Sequence[str]) -> RenderableType:
    texts = [Text(f"- {shown(note, 2000)}") for note in notes if note]
    return Padding(Group(*texts), (0, 0, 1 if texts else 0, 0))


def _flowing(text: str) -> str:
    """Paragraphs without the line breaks of the source, which the terminal sets itself."""
    return "\n".join(" ".join(part.split()) for part in text.replace("`", "").split("\n\n"))
