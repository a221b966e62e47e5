"""Metrics of the word tasks: `process_results: !function metrics.process_results`.

A task's YAML lists in `metric_list` those that it reports. Each takes the generated text and the
document together with the words around it (see `WordTask.process_results`), and is true or false.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from harness_ext.errors import UsageError

Document = Mapping[str, Any]


def named(text: str, words: AbstractSet[str]) -> str | None:
    """The word that the text begins with, or None: what a model answers before it runs on.

    Spaces on the left are dropped, and case counts. A word does not end where a letter, a digit or
    a combining mark follows. Of several words the longest is meant: "twenty-two" names twenty-two,
    not twenty.
    """
    text = unicodedata.normalize("NFC", text.lstrip(" "))
    for end in range(min(len(text), max(map(len, words))), 0, -1):
        if text[:end] in words and not _continues_word(text[end : end + 1]):
            return text[:end]
    return None


def _continues_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character or " ").startswith("M")


def answer_match(text: str, doc: Document) -> bool:
    """Whether the text names an accepted answer."""
    return named(text, doc["output_space"]) in doc["answers"]


def exact_match(text: str, doc: Document) -> bool:
    """Whether the text up to the first newline, stripped, is an accepted answer."""
    return unicodedata.normalize("NFC", text.partition("\n")[0].strip()) in doc["answers"]


def tr_ratio(text: str, doc: Document) -> bool:
    """Whether the text names any word of the output space: the task was recognised."""
    return named(text, doc["output_space"]) is not None


def pair_match(text: str, doc: Document) -> bool:
    """Whether the text names either side of the tested pair."""
    return named(text, doc["output_space"]) in doc["pair_words"]


def side_match(text: str, doc: Document) -> bool:
    """Whether the text names a word, of any pair, on the side the answer is on."""
    return named(text, doc["output_space"]) in doc["side_words"]


METRICS: Mapping[str, Callable[[str, Document], bool]] = {
    metric.__name__: metric
    for metric in (answer_match, exact_match, tr_ratio, pair_match, side_match)
}


def process_results(doc: Document, results: Sequence[str]) -> dict[str, float]:
    """The metrics named in `doc["metrics"]`, for the one generated text.

    Raises :class:`UsageError` for a name that is not in METRICS.
    """
    unknown = [name for name in doc["metrics"] if name not in METRICS]
    if unknown:
        raise UsageError(
            f"metric_list names {', '.join(unknown)}; word tasks know {', '.join(METRICS)}. For "
            "metrics of lm-eval write process_results: null, for your own a function of yours."
        )
    (text,) = results
    return {name: float(METRICS[name](text, doc)) for name in doc["metrics"]}
