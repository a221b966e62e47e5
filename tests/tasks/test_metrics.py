from __future__ import annotations

from typing import Any

import pytest

from harness_ext.errors import UsageError
from tasks.metrics import METRICS, named, process_results

WORDS = frozenset({"chien", "chat", "thé", "twenty", "twenty-two", "a b"})


@pytest.mark.parametrize(
    "text",
    [
        "chien",
        " chien",
        "   chien",
        "chien et chat",
        "chien, chat",
        "chien\n",
        "chien's",
        "chien-x",
    ],
)
def test_a_text_names_the_word_it_begins_with_whatever_follows_but_a_letter_or_digit(
    text: str,
) -> None:
    assert named(text, WORDS) == "chien"


@pytest.mark.parametrize(
    "text",
    ["chiens", "chien2", "chiené", "chien\u0301", "Chien", "le chien", "\nchien", "", " ", "chie"],
)
def test_a_text_that_does_not_begin_with_the_whole_word_names_nothing(text: str) -> None:
    assert named(text, WORDS) is None


def test_the_longest_word_is_named() -> None:
    assert named(" twenty-two", WORDS) == "twenty-two"
    assert named(" twenty-three", WORDS) == "twenty"
    assert named("a b c", WORDS) == "a b"


def test_composed_and_decomposed_accents_are_the_same() -> None:
    assert named("the\u0301", WORDS) == "thé"


def document(**changes: Any) -> dict[str, Any]:
    """The bijection dog ↔ chien, asked for the French of dog."""
    return {
        "answers": ["chien", "toutou"],
        "output_space": frozenset({"dog", "chien", "toutou", "cat", "chat"}),
        "pair_words": frozenset({"dog", "chien", "toutou"}),
        "side_words": frozenset({"chien", "toutou", "chat"}),
        "metrics": list(METRICS),
        **changes,
    }


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (" chien", {"answer_match", "exact_match", "tr_ratio", "pair_match", "side_match"}),
        (" toutou \nmore", {"answer_match", "exact_match", "tr_ratio", "pair_match", "side_match"}),
        (" chien et", {"answer_match", "tr_ratio", "pair_match", "side_match"}),
        (" dog", {"tr_ratio", "pair_match"}),
        (" chat", {"tr_ratio", "side_match"}),
        (" cat", {"tr_ratio"}),
        (" oiseau", set()),
    ],
)
def test_each_metric_asks_its_own_question(text: str, right: set[str]) -> None:
    scores = process_results(document(), [text])
    assert {name for name, score in scores.items() if score == 1.0} == right
    assert set(scores.values()) <= {0.0, 1.0}


def test_only_the_listed_metrics_are_reported_in_their_order() -> None:
    doc = document(metrics=["tr_ratio", "answer_match"])
    assert list(process_results(doc, ["chien"])) == ["tr_ratio", "answer_match"]


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"bleu.*answer_match"):
        process_results(document(metrics=["answer_match", "bleu"]), ["chien"])
