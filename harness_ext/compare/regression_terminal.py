"""A comparison on a terminal of any width from 30 columns on."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from harness_ext.compare.blocks import Cells, blocks
from harness_ext.compare.evaluations import PromptOf
from harness_ext.compare.regression_text import cells, lines, listed_flips, notes, shown, summary
from harness_ext.compare.report import BETTER, NOT_COMPARABLE, TOLERATED, WORSE, Report

_STYLES = {WORSE: "bold red", TOLERATED: "yellow", BETTER: "green", NOT_COMPARABLE: "magenta"}
# Outcomes in two lines and intervals below differences leave names 24 characters of 80 columns.
_HEAD = ("task", "BASE", "NEW", "difference", "p\n(Holm)", "lost,\ngained", "outcome")
_OUTCOME = 14
_WHOLE = 80


def show(console: Console, report: Report, most: int, prompt_of: PromptOf) -> None:
    """Print summary, table, notes, and at most so many lost and gained answers of a task."""
    console.print(Text(summary(report), style="bold red" if report.regressed else "bold"))
    for table in _tables(report, console.width):
        console.print(table)
    for note in notes(report):
        console.print(Text(f"- {shown(note, 2000)}"))
    for title, each, flips in listed_flips(report, most):
        told = (line for flip in flips for line in lines(flip, each, prompt_of))
        console.print(Text(f"\n{title}", style="bold"), Text("\n".join(told)), sep="\n")


def _tables(report: Report, width: int) -> Iterator[RenderableType]:
    """One table where it fits, with only the names of tasks broken; else one in blocks."""
    columns = _columns(report)
    if width < _WHOLE:
        yield from blocks(width, columns[0].heading, columns[0].cells, columns[1:])
        return
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for column in columns:
        table.add_column(column.heading, overflow="fold", no_wrap=column is not columns[0])
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    yield table


def _columns(report: Report) -> list[Cells]:
    rows = []
    for each in report.comparisons:
        task, base, new, difference, p_value, lost, gained, outcome = cells(each)
        told = Text(textwrap.fill(outcome, _OUTCOME), style=_STYLES.get(outcome, ""))
        found = (task, base, new, difference.replace(" [", "\n["), p_value, f"{lost}, {gained}")
        rows.append((*map(Text, found), told))
    return [Cells(Text(name), [row[place] for row in rows]) for place, name in enumerate(_HEAD)]
