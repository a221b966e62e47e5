"""The tone of a sentence by a lexicon: `process_results: !function tone.process_results`.

lexicon.json beside this file holds the words of either tone. No model judges anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

LEXICON = Path(__file__).parent / "lexicon.json"
OTHER_TONE: Mapping[str, str] = {"positive": "negative", "negative": "positive"}
NEGATOR = re.compile(
    "no|not|never|nothing|nobody|none|neither|nor|cannot|without|hardly|barely|scarcely|.+n't"
)
# How many words before a word of the lexicon are searched for a negator.
REACH = 3

_CLAUSE_END = re.compile(r"[.,;:!?()–—…]|\bbut\b|\bonly\b")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


@cache
def lexicon() -> Mapping[str, str]:
    """The tone, positive or negative, of every word of the lexicon."""
    words = json.loads(LEXICON.read_text(encoding="utf-8"))
    return {word: tone for tone in OTHER_TONE for word in words[tone]}


def tones(text: str) -> Iterator[str]:
    """The tone of each word of the lexicon in the text, in order, case aside.

    A word counts for the other tone where one of the three words before it in its clause negates
    it: "not a good idea" is negative, "never boring" positive. A clause ends at a punctuation mark,
    at "but" and at "only" ("not only lovely"). Two negators negate once.
    """
    for clause in _CLAUSE_END.split(text.lower().replace("’", "'")):
        words = _WORD.findall(clause)
        for place, word in enumerate(words):
            tone = lexicon().get(word.removesuffix("'s"))
            if tone is not None:
                before = words[max(0, place - REACH) : place]
                yield OTHER_TONE[tone] if any(map(NEGATOR.fullmatch, before)) else tone


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """How far the first line of the one generated text has the tone `doc["tone"]`.

    - tone_match: 1 where more of its words have that tone than the other one, else 0,
    - tone_balance: (that tone − the other one) / (both), from −1 to 1; 0 where there are neither,
    - opinion_ratio: 1 where there are words of either tone: an opinion was given, whichever.
    """
    (text,) = results
    found = list(tones(text.partition("\n")[0]))
    balance = found.count(doc["tone"]) - found.count(OTHER_TONE[doc["tone"]])
    return {
        "tone_match": float(balance > 0),
        "tone_balance": balance / len(found) if found else 0.0,
        "opinion_ratio": float(bool(found)),
    }
