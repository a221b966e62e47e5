"""Tables on a terminal that is too narrow for all of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

NAME = 40
"""Names of rows are broken at so many characters."""


@dataclass(frozen=True)
class Cells:
    """A column of a table that is parted in blocks: its heading, and its cells row by row."""

    heading: Text
    cells: Sequence[Text]
    justify: JustifyMethod = "left"


def blocks(
    width: int, corner: Text, names: Sequence[Text], columns: Sequence[Cells]
) -> Iterator[RenderableType]:
    """Tables below each other, each with the names and as many columns as fit beside them."""
    names_width = min(_width((corner, *names)), NAME, width // 2)
    block: list[Cells] = []
    for column in columns:
        if block and names_width + _span(*block, column) > width:
            yield _table(width, corner, names, block)
            block = []
        block.append(column)
    yield _table(width, corner, names, block)


def _table(width: int, corner: Text, names: Sequence[Text], columns: Sequence[Cells]) -> Table:
    """One block; where not even one column fits beside the names, these are broken first."""
    left = max(width - _span(*columns), width // 3)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(corner, overflow="fold", max_width=min(left, NAME))
    for column in columns:
        table.add_column(column.heading, overflow="fold", justify=column.justify)
    for name, *cells in zip(names, *(column.cells for column in columns), strict=True):
        table.add_row(name, *cells)
    return table


def _span(*columns: Cells) -> int:
    """Two spaces more than the texts for each column, and a space at either edge of the table."""
    return 2 + sum(2 + _width((column.heading, *column.cells)) for column in columns)


def _width(texts: Sequence[Text]) -> int:
    return max(cell_len(line) for text in texts for line in text.plain.split("\n"))
