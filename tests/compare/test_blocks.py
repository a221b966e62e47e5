from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from harness_ext.compare.blocks import Cells, blocks

NAMES = [Text("first"), Text("the second of them")]
COLUMNS = [
    Cells(Text(f"column {number}"), [Text(f"a{number}"), Text(f"b{number}")]) for number in range(7)
]


def lines(width: int) -> list[str]:
    text = io.StringIO()
    console = Console(file=text, width=width)
    for table in blocks(width, Text("rows"), NAMES, COLUMNS):
        console.print(table)
    return text.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 44, 60, 100])
def test_every_cell_stands_once_in_lines_that_fit(width: int) -> None:
    found = lines(width)
    assert all(len(line) <= width for line in found)
    words = " ".join(found).split()
    for number in range(7):
        assert words.count(f"a{number}") == words.count(f"b{number}") == 1


def test_every_block_has_the_names() -> None:
    assert sum(line.strip().startswith("first") for line in lines(44)) > 1
    assert sum(line.strip().startswith("first") for line in lines(200)) == 1
