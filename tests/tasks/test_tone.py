"""The lexicon of tones, and how a sentence is scored by it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tasks.generation.tone import LEXICON, NEGATOR, OTHER_TONE, lexicon, process_results, tones


def scores(text: str, tone: str = "positive") -> dict[str, float]:
    return process_results({"tone": tone}, [text])


def words() -> dict[str, list[str]]:
    read: dict[str, list[str]] = json.loads(LEXICON.read_text("utf-8"))
    return read


def test_the_lexicon_has_at_least_250_words_of_either_tone() -> None:
    assert words().keys() == set(OTHER_TONE)
    assert all(len(of_tone) >= 250 for of_tone in words().values())


def test_no_word_has_both_tones_or_stands_twice() -> None:
    every = [word for of_tone in words().values() for word in of_tone]
    assert len(every) == len(set(every)) == len(lexicon())


def test_words_are_single_small_sorted_and_no_negators() -> None:
    for of_tone in words().values():
        assert of_tone == sorted(of_tone)
        assert all(word.isascii() and word.isalpha() and word.islower() for word in of_tone)
        assert not any(map(NEGATOR.fullmatch, of_tone))


def test_every_word_is_found_in_a_text_by_itself() -> None:
    for word, tone in lexicon().items():
        assert list(tones(word)) == [tone], word


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The bread is warm and the owner is lovely.", ["positive"]),
        ("Lovely bread, but a RUDE owner", ["positive", "negative"]),
        ("A goodly, unlovely thing", []),  # whole words only
        ("Beauty's price", ["positive"]),
        ("It is four o'clock", []),
        ("a friendly-looking dog", ["positive"]),
        ("", []),
    ],
)
def test_words_of_the_lexicon_are_found_in_order_case_and_punctuation_aside(
    text: str, found: list[str]
) -> None:
    assert list(tones(text)) == found


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("not good", "negative"),
        ("not a very good idea", "negative"),
        ("It isn't good", "negative"),
        ("It isn’t good", "negative"),
        ("never boring", "positive"),
        ("Without any problems", "positive"),
        ("Nobody was any good", "negative"),
        ("not in any way at all good", "positive"),  # out of reach
        ("No, it is good", "positive"),
        ("I could not leave: superb", "positive"),
        ("not cheap but good", "positive"),
        ("not only good", "positive"),
        ("never not good", "negative"),
        ("knot good", "positive"),
    ],
)
def test_a_negator_up_to_three_words_before_in_the_clause_turns_a_words_tone(
    text: str, tone: str
) -> None:
    assert list(tones(text)) == [tone]


@pytest.mark.parametrize(
    ("text", "match", "balance", "opinion"),
    [
        (" A lovely, lovely place", 1.0, 1.0, 1.0),
        (" Lovely, charming and noisy", 1.0, 1 / 3, 1.0),
        (" Lovely and noisy", 0.0, 0.0, 1.0),
        (" Noisy", 0.0, -1.0, 1.0),
        (" A place", 0.0, 0.0, 0.0),
        (" Lovely\nNoisy and rude", 1.0, 1.0, 1.0),
        ("\nLovely", 0.0, 0.0, 0.0),
        ("", 0.0, 0.0, 0.0),
    ],
)
def test_an_answer_is_scored_by_the_words_of_its_first_line(
    text: str, match: float, balance: float, opinion: float
) -> None:
    expected = {"tone_match": match, "tone_balance": balance, "opinion_ratio": opinion}
    assert scores(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["Lovely, charming and noisy", "Lovely and noisy", "A place"])
def test_the_tones_are_scored_alike(text: str) -> None:
    positive, negative = (scores(text, tone) for tone in OTHER_TONE)
    assert positive["tone_balance"] == -negative["tone_balance"]
    assert positive["opinion_ratio"] == negative["opinion_ratio"]
    assert positive["tone_match"] + negative["tone_match"] == (positive["tone_balance"] != 0)


def test_scores_are_those_of_the_yaml(manager: Any) -> None:
    (task,) = manager.load("generate_positive")["tasks"].values()
    assert list(scores("Lovely")) == [entry["metric"] for entry in task.config.metric_list]
