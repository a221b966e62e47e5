"""Compares the English word lists with WordNet and with the lexicon of `lemminflect`.

An inflected form must be confirmed by both: `lemminflect` (the NIH SPECIALIST lexicon) inflects
the base form with the right tag, and WordNet's lemmatiser (`morphy`) leads back to the base form.
WordNet alone would not do: it does not tell a past from a participle, and it reads any word that
looks regular as a form, "goed" as one of "go".

A pair of antonyms is confirmed if WordNet opposes a synset of the one to a synset of the other,
or (adjectives) to one similar to it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

LISTS = Path(__file__).parents[2] / "tasks" / "lists"
WORDNET = Path("/usr/share/wordnet")

PartOfSpeech = Literal["noun", "verb", "adj", "adv"]
# Part of speech and Penn Treebank tag of the right-hand side.
INFLECTIONS: dict[str, tuple[PartOfSpeech, str]] = {
    "gerund": ("verb", "VBG"),
    "past": ("verb", "VBD"),
    "participle": ("verb", "VBN"),
    "plural": ("noun", "NNS"),
}

# morphy's rules of detachment: a regular form's ending and the base form's.
_DETACHMENT: dict[PartOfSpeech, tuple[tuple[str, str], ...]] = {
    "noun": (
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "verb": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
}
_FILE_OF_LETTER: dict[str, PartOfSpeech] = {
    "n": "noun",
    "v": "verb",
    "a": "adj",
    "s": "adj",
    "r": "adv",
}


@dataclass(frozen=True)
class Synset:
    """Its words, the synsets it is an antonym of, and those it is similar to (adjectives)."""

    words: frozenset[str]
    antonyms: frozenset[tuple[PartOfSpeech, str]]
    similar: frozenset[str]


@dataclass(frozen=True)
class WordNet:
    """The database files of WordNet 3.0 in a folder; read once, where they are first needed."""

    folder: Path = field(default=WORDNET)

    def base_forms(self, form: str, pos: PartOfSpeech) -> set[str]:
        """The base forms morphy gives: those of the exception list, or else by its rules."""
        if form in self._exceptions[pos]:
            return self._exceptions[pos][form]
        stems = {
            form.removesuffix(ending) + base
            for ending, base in _DETACHMENT[pos]
            if form.endswith(ending)
        }
        return stems & self._lemmas[pos]

    def antonyms(self, word: str) -> set[str]:
        """Words of the synsets opposed to a synset of the word."""
        return {w for opposite in self._opposed_to(word) for w in opposite.words}

    def near_antonyms(self, word: str) -> set[str]:
        """Words of the synsets similar to one opposed to a synset of the word (adjectives)."""
        return {
            w
            for opposite in self._opposed_to(word)
            for similar in opposite.similar
            for w in self._synsets["adj", similar].words
        }

    def _opposed_to(self, word: str) -> list[Synset]:
        return [self._synsets[key] for s in self._synsets_of[word] for key in s.antonyms]

    @cached_property
    def _exceptions(self) -> dict[PartOfSpeech, dict[str, set[str]]]:
        lists: dict[PartOfSpeech, dict[str, set[str]]] = {}
        for pos in _DETACHMENT:
            forms: dict[str, set[str]] = defaultdict(set)
            for line in self._lines(f"{pos}.exc"):
                form, *bases = line.split()
                forms[form].update(bases)
            lists[pos] = dict(forms)
        return lists

    @cached_property
    def _lemmas(self) -> dict[PartOfSpeech, set[str]]:
        return {
            pos: {line.split(" ", 1)[0] for line in self._lines(f"index.{pos}")}
            for pos in _DETACHMENT
        }

    @cached_property
    def _synsets(self) -> dict[tuple[PartOfSpeech, str], Synset]:
        return {
            (pos, line.split(" ", 1)[0]): _parse_synset(line)
            for pos in get_args(PartOfSpeech)
            for line in self._lines(f"data.{pos}")
        }

    @cached_property
    def _synsets_of(self) -> dict[str, list[Synset]]:
        synsets: dict[str, list[Synset]] = defaultdict(list)
        for synset in self._synsets.values():
            for word in synset.words:
                synsets[word].append(synset)
        return synsets

    def _lines(self, name: str) -> Iterator[str]:
        with (self.folder / name).open(encoding="latin-1") as file:
            # The licence at the top of each file is indented.
            yield from (line for line in file if not line.startswith("  "))


def _parse_synset(line: str) -> Synset:
    """Content of a line of a data file (format: wndb(5WN))."""
    fields = line.split(" | ", 1)[0].split()
    words_end = 4 + 2 * int(fields[3], 16)
    pointers_end = words_end + 1 + 4 * int(fields[words_end])
    pointers = [tuple(fields[start : start + 3]) for start in range(words_end + 1, pointers_end, 4)]
    return Synset(
        # Some adjectives carry a note of where they may stand: "asleep(p)".
        words=frozenset(re.sub(r"\(\w+\)$", "", w).lower() for w in fields[4:words_end:2]),
        antonyms=frozenset(
            (_FILE_OF_LETTER[pos], offset) for symbol, offset, pos in pointers if symbol == "!"
        ),
        similar=frozenset(offset for symbol, offset, _ in pointers if symbol == "&"),
    )


def check() -> dict[str, dict[str, str]]:
    """What was found instead of the pairs that are not confirmed: list → pair → finding.

    Accepted alternatives are looked up too, each as a pair with the row's other main form.

    Raises FileNotFoundError if WordNet or lemminflect is not installed, naming the package.
    """
    if not (WORDNET / "data.noun").exists():
        raise FileNotFoundError("WordNet missing: apt-get install wordnet-base")
    if find_spec("lemminflect") is None:
        raise FileNotFoundError("Inflection lexicon missing: pip install lemminflect")
    wordnet = WordNet()
    findings = {
        name: {f"{x} → {y}": inflection_doubts(wordnet, x, y, *kind) for x, y in _pairs(name)}
        for name, kind in INFLECTIONS.items()
    }
    findings["antonym"] = {
        f"{x} → {y}": antonym_doubts(wordnet, x, y) for x, y in _pairs("antonym")
    }
    return {
        name: {pair: doubts for pair, doubts in found.items() if doubts}
        for name, found in findings.items()
    }


def inflection_doubts(wordnet: WordNet, base: str, form: str, pos: PartOfSpeech, tag: str) -> str:
    """What the sources have instead of `form` as the form of `base`; empty if both agree."""
    from lemminflect import getInflection  # late: `check` first says how to install it

    doubts = []
    inflected = getInflection(base, tag=tag, inflect_oov=False)
    if form not in inflected:
        doubts.append(f"lemminflect inflects '{base}' as {_listed(inflected)}")
    bases = wordnet.base_forms(form, pos)
    if base not in bases:
        doubts.append(f"WordNet reads '{form}' as a form of {_listed(bases)}")
    return "; ".join(doubts)


def antonym_doubts(wordnet: WordNet, x: str, y: str) -> str:
    """What WordNet has instead of y as the opposite of x; empty if it confirms the pair."""
    opposites = wordnet.antonyms(x) | wordnet.near_antonyms(x)
    if y in opposites or x in wordnet.near_antonyms(y):
        return ""
    return "; ".join(
        f"WordNet opposes '{word}' to {_listed(wordnet.antonyms(word))}" for word in (x, y)
    )


def _listed(words: set[str] | tuple[str, ...]) -> str:
    return ", ".join(sorted(words)) or "nothing"


def _pairs(name: str) -> Iterator[tuple[str, str]]:
    """Each row's pair, then its alternatives with the main form of the other side."""
    for line in (LISTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["x"], row["y"]
        yield from ((x, row["y"]) for x in row.get("x_also", ()))
        yield from ((row["x"], y) for y in row.get("y_also", ()))
