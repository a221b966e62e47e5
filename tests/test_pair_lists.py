from __future__ import annotations

from pathlib import Path

import pytest

from harness_ext.errors import UsageError
from harness_ext.pair_lists import Pair, read_pairs, with_symbols


def test_a_row_is_read_with_all_its_forms_or_as_a_text_and_its_label(tmp_path: Path) -> None:
    path = tmp_path / "list.jsonl"
    path.write_text(
        '{"x": "hello", "y": "bonjour", "y_also": ["salut"], "split": "test"}\n'
        '{"text": "What a day!", "label": "good", "split": "train"}\n'
    )
    assert read_pairs(path) == [
        Pair(("hello",), ("bonjour", "salut"), "test"),
        Pair(("What a day!",), ("good",), "train"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "dog, chien",
        "3",
        '["dog"]',
        '{"x": "dog", "y": "chien"}',
        '{"x": "dog", "split": "train"}',
        '{"x": "dog", "y": "", "split": "train"}',
        '{"x": "dog", "y": 3, "split": "train"}',
        '{"x": "dog", "y": "chien", "split": "dev"}',
        '{"x": "dog", "y": "chien", "y_also": "toutou", "split": "train"}',
        '{"x": "dog", "y": "chien", "y_also": [null], "split": "train"}',
        '{"x": "dog", "y": "chien", "also": ["toutou"], "split": "train"}',
        '{"text": "What a day!", "split": "train"}',
        '{"text": "What a day!", "y": "good", "split": "train"}',
        '{"text": "What a day!", "label": 1, "split": "train"}',
    ],
)
def test_a_faulty_row_is_refused_naming_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "faulty.jsonl"
    path.write_text(f'{{"x": "cat", "y": "chat", "split": "train"}}\n{line}\n')
    with pytest.raises(UsageError, match=r"faulty\.jsonl, line 2: .*not a row"):
        read_pairs(path)


def test_a_pair_is_named_by_both_sides_unless_it_has_an_alias() -> None:
    pair = Pair(("hello", "hi"), ("bonjour",), "train")
    assert pair.name == "hello|bonjour"
    assert pair._replace(alias="greeting").name == "greeting"


def test_a_symbol_replaces_every_form_of_y_and_leaves_the_name() -> None:
    pair = Pair(("hello", "hi"), ("bonjour", "salut"), "train")
    (shown,) = with_symbols([pair], {"bonjour": "@"}, "a task")
    assert (shown.forms("x"), shown.forms("y")) == (("hello", "hi"), ("@",))
    assert shown.name == pair.name
