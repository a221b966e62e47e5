from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from harness_ext.compare.regression_terminal import show
from harness_ext.compare.report import Limits, Report
from tests.compare.comparisons import report, sides
from tests.compare.made_up import evaluation, sample


def shown(found: Report, most: int = 2, width: int = 80) -> str:
    text = io.StringIO()
    show(Console(file=text, width=width), found, most, lambda each, one: f"Q: {one.query} →")
    return text.getvalue()


def test_the_terminal_shows_what_was_lost_and_gained_with_prompts() -> None:
    text = shown(report(*sides()))
    assert text.startswith("1 comparison: 1 worse.")
    assert "task: lost by NEW (2 of 10)" in text and "task: gained by NEW (1 of 1)" in text
    assert "prompt  Q: query 0 task →" in text
    assert "BASE    right" in text and "NEW     wrong" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_answer_shown_is_the_one_that_is_scored() -> None:
    base = evaluation("a", [replace(sample("d", 1), answers={"answer_match": "scored"})])
    new = evaluation("a", [sample("d", 0)])
    text = shown(report([base], [new]))
    assert "BASE    scored" in text and "NEW     wrong" in text


@pytest.mark.parametrize("name", ["bijection_participle", "classify_sentiment_label"])
def test_names_of_tasks_are_whole_in_80_columns(name: str) -> None:
    found = report(*sides(name), limits=Limits(max_drop=0.5))
    lines = shown(found).splitlines()
    (row,) = (number for number, line in enumerate(lines) if line.startswith(f" {name} "))
    assert lines[row].rstrip().endswith(" within")
    assert lines[row + 1].rstrip().endswith(" tolerance")


@pytest.mark.parametrize("width", [30, 40, 50, 60, 70, 79])
def test_no_number_is_cut_on_a_narrow_terminal(width: int) -> None:
    lines = shown(report(*sides("task")), width=width).splitlines()
    assert all(len(line) <= width for line in lines)
    cells = [cell for line in lines if line.startswith(" ") for cell in line.split("  ")]
    for cell in ("0.98", "0.80", "−0.18", "[−0.31, −0.04]", "10, 1", "worse"):
        assert cell in [each.strip() for each in cells], cell
