"""Puts the page together: its parts, its style and its script in one text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from harness_ext import __version__
from harness_ext.compare.board_rows import rows_of
from harness_ext.compare.evaluations import PromptOf, Reading
from harness_ext.compare.leaderboard import Leaderboard
from harness_ext.compare.page import failures, gap, svg
from harness_ext.compare.page.board import board_table
from harness_ext.compare.page.heads import HeadScores
from harness_ext.compare.page.layers import LOOKS, panels
from harness_ext.compare.page.provenance import provenance
from harness_ext.compare.table1 import Table1
from harness_ext.compare.text import Places, clip, count, listed, visible

TITLE = "Task vectors: leaderboard"
PROBLEMS = 200
"""Problems told at most; further ones are counted."""


def render(
    reading: Reading,
    board: Leaderboard,
    table1: Table1 | None = None,
    *,
    heads: Sequence[HeadScores] = (),
    prompt_of: PromptOf | None = None,
    sources: Sequence[Path] = (),
    command: str = "",
    made: datetime,
    title: str = TITLE,
) -> str:
    """The page as HTML. Equal arguments give equal text.

    Args:
        reading: the evaluations that the board was made from, and what is wrong with their files.
        board: the leaderboard of them.
        table1: Table 1 of them, where there is one.
        heads: what `taskvec heads` found, see `read_heads`.
        prompt_of: builds the prompt of a sample that was kept without one.
        sources: the folders that were given; files are named from there on, so that the page tells
            nothing of the machine.
        command: what the page was made with.
        made: when, in UTC.
    """
    places = Places(sources)
    evaluations = reading.evaluations
    rows = rows_of(evaluations)
    metrics = {column.name: column.metric for column in board.columns if column.kind == "task"}
    table = board_table(board, evaluations)
    tasks = list(metrics)
    curves = panels(rows, tasks)
    problems = [
        (places.name(each.path), places.in_text(each.message), each.unused)
        for each in dict.fromkeys((*board.problems, *reading.problems))
    ]
    sections = {
        "leaderboard": "Leaderboard",
        **({"gap": "Bijection gap"} if table1 else {}),
        **({"layers": "Accuracy by layer"} if curves else {}),
        **({"heads": "Attention heads"} if heads else {}),
        "failures": "Wrong answers",
        "provenance": "Provenance",
    }
    style, script = _asset("page.css"), _asset("page.js")
    page: str = _template().render(
        title=title,
        summary=_summary(board, len(evaluations)),
        sections=sections.items(),
        style=Markup(style),
        script=Markup(script),
        style_hash=Markup(_hash(style)),
        script_hash=Markup(_hash(script)),
        metric=board.metric,
        table=table,
        notes=board.notes,
        gap_tables=gap.gap_tables(table1) if table1 else [],
        panels=curves,
        heads=heads,
        failures=failures.failures(rows, metrics, prompt_of),
        most=failures.ALL,
        provenance=provenance(evaluations, places),
        problems=problems[:PROBLEMS],
        more_problems=max(0, len(problems) - PROBLEMS),
        made=f"{made:%Y-%m-%d %H:%M}",
        version=__version__,
        command=command,
        plain=places.in_text,
    )
    return page


def _summary(board: Leaderboard, evaluations: int) -> str:
    models = list(dict.fromkeys(row.model for row in board.rows))
    tasks = sum(column.kind == "task" for column in board.columns)
    named = ": " + listed((clip(model, 60) for model in models), 4) if models else ""
    return (
        f"{count(len(models), 'model')}{named}. {count(len(board.rows), 'row')}, "
        f"{count(tasks, 'task')}, {count(evaluations, 'evaluation')}."
    )


def _swatch(number: int) -> Markup:
    """A piece of the curve's line, as the key beside its name."""
    return _sign(svg.line(1, 6, 27, 6, f"curve c{number % LOOKS}"))


def _key(setting: int) -> Markup:
    """The mark of a setting in the chart of gaps."""
    return _sign(svg.line(1, 6, 27, 6, f"whisker c{setting}"), gap.mark(setting, 14, 6))


def _sign(*parts: Markup) -> Markup:
    return svg.element(
        "svg",
        *parts,
        viewBox="0 0 28 12",
        width=28,
        height=12,
        class_="swatch",
        aria_hidden="true",
    )


def _hash(text: str) -> str:
    """How a content security policy names an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        # Text that is no markup yet, wherever it stands.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters["clip"] = clip
    environment.globals["swatch"] = _swatch
    environment.globals["key"] = _key
    return environment.get_template("page.html.j2")
