"""Rules that hold for every word list."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from harness_ext.pair_lists import Pair, read_pairs
from tasks.word_task import LISTS

NAMES = sorted(path.stem for path in LISTS.glob("*.jsonl"))
README = Path(__file__).parents[2] / "tasks" / "README.md"

MANY_TO_ONE = {"continent", "language", "religion"}
# Adjectives, letters, and lists of the very words they are asked for.
SIDES_SHARE_WORDS = {"antonym", "copy", "next_letter", "list_first", "list_last"}
NAMES_IN_X = {"capital", "continent", "language", "religion"}
CAPITALS_IN_Y = {*NAMES_IN_X, "element", "german", "upper"}

each_list = pytest.mark.parametrize("name", NAMES)


def pairs_of(name: str) -> list[Pair]:
    return read_pairs(LISTS / f"{name}.jsonl")


def short_lists() -> set[str]:
    """The lists in the README's table of short ones, each with its reason."""
    section = README.read_text("utf-8").partition("## Word lists")[2]
    return set(re.findall(r"^\| `(\w+)` \| \w.*\|$", section, re.MULTILINE))


def test_the_readme_says_why_a_list_has_fewer_than_200_pairs() -> None:
    assert short_lists() == {name for name in NAMES if len(pairs_of(name)) < 200}


@each_list
def test_the_train_split_has_10_demonstrations_2_queries_and_4_shots(name: str) -> None:
    pairs = pairs_of(name)
    assert sum(pair.split == "train" for pair in pairs) >= 10 + 2 + 4
    assert any(pair.split == "test" for pair in pairs)


@each_list
def test_no_query_stands_twice(name: str) -> None:
    pairs = pairs_of(name)
    for side in ("x",) if name in MANY_TO_ONE else ("x", "y"):
        counts = Counter(pair.forms(side)[0] for pair in pairs)
        assert [word for word, count in counts.items() if count > 1] == []


@each_list
def test_a_further_form_is_not_another_pairs_word(name: str) -> None:
    """Else that other pair would accept too little: the two words mean the same.

    Further forms of two pairs may be the same, as no query or target is one.
    """
    pairs = pairs_of(name)
    for side in ("x",) if name in MANY_TO_ONE else ("x", "y"):
        words = {pair.forms(side)[0] for pair in pairs}
        further = {form for pair in pairs for form in pair.forms(side)[1:]}
        assert words & further == set()


@pytest.mark.parametrize("name", sorted(set(NAMES) - SIDES_SHARE_WORDS))
def test_the_two_sides_share_no_form(name: str) -> None:
    pairs = pairs_of(name)
    sides = [{form for pair in pairs for form in pair.forms(side)} for side in ("x", "y")]
    assert sides[0] & sides[1] == set()


def test_no_antonym_stands_on_both_sides() -> None:
    pairs = pairs_of("antonym")
    assert {pair.x[0] for pair in pairs} & {pair.y[0] for pair in pairs} == set()


@each_list
def test_no_pair_lists_a_form_twice(name: str) -> None:
    pairs = pairs_of(name)
    for pair in pairs:
        assert len(set(pair.x)) == len(pair.x) and len(set(pair.y)) == len(pair.y), pair


@each_list
def test_forms_are_clean(name: str) -> None:
    pairs = pairs_of(name)
    for form in (form for pair in pairs for form in pair.x + pair.y):
        assert " ".join(form.split()) == form  # no stray space, no newline
        assert unicodedata.normalize("NFC", form) == form
        assert "→" not in form
        assert form.replace(" ", "").isprintable()


@pytest.mark.parametrize("name", sorted({*NAMES} - {"copy"}))
def test_forms_are_in_small_letters_unless_they_are_names(name: str) -> None:
    pairs = pairs_of(name)
    for side, names in (("x", NAMES_IN_X), ("y", CAPITALS_IN_Y)):
        for form in (form for pair in pairs for form in pair.forms(side)):
            if name not in names:
                assert form == form.lower(), form
            elif name != "german":  # its verbs and adjectives are small
                assert form[0].isupper(), form


@each_list
def test_every_list_is_used(name: str) -> None:
    assert list((LISTS.parent).glob(f"*/{name}.yaml"))
