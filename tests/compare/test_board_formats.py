from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from harness_ext.compare.board_formats import CSV_HEAD, as_csv, as_json, markdown
from harness_ext.compare.board_terminal import show
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.leaderboard import Leaderboard, build
from harness_ext.compare.table1 import table1
from tests.compare.made_up import evaluation, reading, word_map

HOSTILE = [
    "a|b`c`*d*",
    "[red]no[/red] [link=x]",
    "\x1b[31mred\x1b[0m\x07",
    "two\nlines\r\tand",
    "x" * 5000,
    "<script>alert(1)</script>",
    "\u202eright to left\u2069",
    "=1+2",
    "**bold** _it_ ~~no~~ \\",
    "emoji 👩‍🔬",
    "lone \udc80 surrogate",
]
KNOWN = {"forward": [[1]] * 8, "inverse": [[1]] * 8, "bijection": [[1, 1]] * 8}


def board_of(*evaluations: Evaluation) -> Leaderboard:
    return build(reading(*evaluations))


def hostile() -> Leaderboard:
    return board_of(
        *(
            evaluation(f"{name} task", model=name, settings={"peft": name}, metric="acc")
            for name in HOSTILE
        ),
        *(evaluation("shared", model=name, settings={}, metric="acc") for name in HOSTILE),
    )


def printed(board: Leaderboard, width: int = 80, **options: Any) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, markup=False, highlight=False, emoji=False)
    show(console, board, options.pop("table", None), options.pop("all_tasks", False))
    return text.getvalue()


def two_models() -> Leaderboard:
    return board_of(
        *(evaluation(f"forward_{n}", [1] * 30, model="tiny") for n in "abc"),
        *(evaluation(f"forward_{n}", [0] * 30, model="big") for n in "abc"),
    )


# Terminal


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    many = [f"{kind}_{n}" for kind in ("forward", "bijection", "generate") for n in range(8)]
    board = board_of(*(evaluation(task, model=m) for task in many for m in ("tiny", "b" * 70)))
    for all_tasks in (True, False):
        text = printed(board, width, all_tasks=all_tasks)
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", range(30, 100, 5))
@pytest.mark.parametrize("model", ["tiny-model", "m" * 70])
def test_a_narrow_terminal_breaks_no_number(width: int, model: str) -> None:
    given = word_map("upper", KNOWN, model=model, method="none", shots=10)
    half = {**KNOWN, "bijection": [[0, 1]] * 8}
    given += word_map("upper", half, model=model, method="tv", shots=0)
    board, table = board_of(*given), table1(given)
    interval = re.compile(r"−?\d\.\d\d(?:–|, )−?\d\.\d\d")
    wide = interval.findall(printed(board, 200, table=table))
    assert len(wide) >= 12
    assert sorted(interval.findall(printed(board, width, table=table))) == sorted(wide)


def test_columns_that_fit_beside_the_names_break_none_of_them() -> None:
    board = board_of(*(evaluation(f"t_{n}", [1, 0] * 9, model="twelve-signs") for n in range(4)))
    for width in range(30, 90):
        assert "twelve-signs " in printed(board, width)


def test_the_settings_of_a_map_stand_below_it_where_it_is_narrow() -> None:
    given = word_map("upper", KNOWN, method="none", shots=10)
    given += word_map("upper", KNOWN, method="tv", shots=0)
    text = printed(board_of(*given), 30, table=table1(given))
    lines = [line.split() for line in text[text.index(" map ") :].splitlines()]
    assert [*lines[:2], lines[3]] == [["map"], ["setting", "X→Y"], ["upper", "1.00"]]
    assert lines[4][:2] == ["ICL", "(10)"] and lines[4][3] == "1.00]"


def test_many_tasks_stand_in_blocks_below_each_other() -> None:
    board = board_of(*(evaluation(f"forward_{n}0", [1, 1, 1, 0]) for n in range(1, 20)))
    text = printed(board, all_tasks=True)
    assert all(f" {n}0 " in text for n in range(1, 20))
    assert text.count("tiny\n") + text.count("tiny ") >= 3


def test_of_many_tasks_the_means_are_shown_and_the_rest_is_said() -> None:
    board = board_of(*(evaluation(f"forward_{n}", [1, 1, 1, 0]) for n in range(20)))
    text = printed(board)
    assert "20 tasks are not shown one by one: --all-tasks shows them." in text
    assert "forward_\n" not in text and "(20)" in text


def test_tasks_that_are_in_no_mean_are_shown_however_many() -> None:
    given = [evaluation(f"t{n}", metric="bleu", scores=[3, 9, 4]) for n in range(20)]
    assert "t19" in printed(board_of(*given))


def test_of_many_tasks_those_that_cannot_enter_a_mean_are_shown() -> None:
    given = [evaluation(f"forward_{n}", [1, 1, 1, 0]) for n in range(20)]
    text = printed(board_of(*given, evaluation("wiki", [3, 9, 4], metric="word_perplexity")))
    assert "wiki" in text and "20 tasks are not shown" in text


def test_the_best_has_a_star() -> None:
    assert "1.00*" in printed(two_models())
    assert "0.00*" not in printed(two_models())


def test_a_terminal_gets_no_control_characters_and_no_markup_is_obeyed() -> None:
    text = printed(hostile(), all_tasks=True)
    assert not any((ord(c) < 32 and c != "\n") or c in "\u202e\u2069\x7f" for c in text)
    assert "[red]no[/red]" in text.replace("\n", "")
    assert r"\x1b" in text or r"\u001b" in text


def test_an_interval_that_is_not_known_is_said() -> None:
    given = evaluation("t", [3.0, 4.0], metric="bleu", has_samples=False, stderr=None)
    assert "no interval" in printed(board_of(given))


def test_the_bijection_gaps_follow() -> None:
    given = word_map("upper", KNOWN, method="none", shots=10)
    given += word_map("upper", KNOWN, method="tv", shots=0)
    text = printed(board_of(*given), table=table1(given))
    assert "Bijection gaps, tiny" in text and "does not show" in text
    assert max(map(len, text.splitlines())) <= 80


# Markdown


def parsed(text: str) -> list[list[str]]:
    """The cells of the tables as a CommonMark parser with GitHub's tables sees them."""
    rows: list[list[str]] = []
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and token.level >= 4:
            rows[-1].append("".join(child.content for child in token.children or []))
    return rows


def kinds(text: str) -> set[str]:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return {child.type for token in tokens for child in token.children or []}


def test_markdown_holds_what_the_board_holds() -> None:
    head, best, other = parsed(markdown(two_models(), None))
    assert head == ["model", "method", "mean (3)", "forward (3)", *(f"forward_{n}" for n in "abc")]
    assert best[:2] == ["tiny", "tv"] and best[4] == "1.00 [0.88, 1.00]"
    assert other[:2] == ["big", "tv"] and other[4] == "0.00 [0.00, 0.12]"
    assert "| **1.00 [0.88, 1.00]** |" in markdown(two_models(), None)


def test_hostile_names_break_no_markdown() -> None:
    board = hostile()
    text = markdown(board, None, all_tasks=True)
    rows = parsed(text)
    assert len(rows) == 1 + len(board.rows) and len({len(row) for row in rows}) == 1
    names = {row[0] for row in rows[1:]}
    for name in ("a|b`c`*d*", "[red]no[/red] [link=x]", "**bold** _it_ ~~no~~ \\"):
        assert name in names
    assert kinds(text) <= {"text", "text_special", "softbreak", "strong_open", "strong_close",
                           "code_inline"}  # fmt: skip
    assert not any(ord(c) < 32 and c != "\n" for c in text)


def test_markdown_lists_notes_and_problems() -> None:
    text = markdown(board_of(evaluation(seed=1), evaluation(seed=2, scores=[1])), None)
    assert "- forward_upper of tiny · tv: seeds have different documents" in text


# CSV and JSON


def test_csv_has_a_line_for_each_score() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(two_models()))))
    assert tuple(rows[0]) == CSV_HEAD
    assert len(rows) == 2 * 5
    first = rows[0]
    assert (first["model"], first["column"], first["mean"], first["best"]) == (
        "tiny",
        "forward_a",
        "1.0",
        "1",
    )
    assert float(first["low"]) == pytest.approx(0.878, abs=0.001)


def test_no_text_in_csv_is_a_formula_or_breaks_a_line() -> None:
    names = ["=1+2", "+1", "-1", "@x", "\t=1", "\r=1", 'a,"b"', "two\nlines"]
    board = board_of(*(evaluation(model=name) for name in names))
    rows = list(csv.reader(io.StringIO(as_csv(board))))
    assert len(rows) == 1 + len(names)
    assert not any(row[0].startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows)
    assert {"'=1+2", 'a,"b"', "two\\nlines"} <= {row[0] for row in rows}


def test_json_holds_everything_and_is_strict() -> None:
    unknown = evaluation("t", [3.0, 4.0], metric="bleu", has_samples=False, stderr=None)
    given = word_map("upper", KNOWN, method="none", shots=10)
    given += word_map("upper", KNOWN, method="tv", shots=0)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    text = as_json(board_of(unknown, *given), table1(given))
    found = json.loads(text, parse_constant=refuse)
    row = next(row for row in found["rows"] if "t" in row["scores"])
    assert row["scores"]["t"]["low"] is None and row["scores"]["t"]["mean"] == 3.5
    (gaps,) = found["bijection_gaps"]
    assert gaps["maps"][0]["gap"]["pairs"] == 8
    assert {column["name"] for column in found["columns"]} >= {"t", "bijection_upper"}


def test_hostile_names_come_back_from_json_as_they_were() -> None:
    found = json.loads(as_json(hostile(), None).encode())
    assert {row["model"] for row in found["rows"]} == set(HOSTILE)
