"""Compares the translation lists with the FreeDict dictionaries that Debian packages.

A pair is confirmed if its English word is translated by its foreign word in either direction.
Only a row's main forms are looked up: its alternatives merely widen what a grader accepts.
"""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LISTS = Path(__file__).parents[2] / "tasks" / "lists"
DICTIONARIES = Path("/usr/share/dictd")
LANGUAGES = {"french": "fra", "italian": "ita", "spanish": "spa", "german": "deu"}

_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# Notes, examples and cross-references follow a translation on lines of their own.
_REMARK = re.compile(r"^( {3}| see: )")
_NUMBERING = re.compile(r"^\s*\d+\. ")
_SEPARATOR = re.compile(r"[,;]|<[^>]*>|\[[^]]*]|\([^)]*\)")  # labels separate translations too
_OBJECT = re.compile(r"\b(?:(?:sth|sb|etw|jdm|jdn)[./]*)+(?!\w)")  # "sb./sth.", in indexes "sbsth"


@dataclass(frozen=True)
class Dictionary:
    """One direction of a FreeDict dictionary, as installed by its Debian package."""

    name: str
    folder: Path

    @property
    def package(self) -> str:
        """The Debian package that installs this dictionary."""
        return f"dict-freedict-{self.name}"

    @property
    def index(self) -> Path:
        """Headword, offset and length of each entry, tab-separated, numbers in base 64."""
        return self.folder / f"freedict-{self.name}.index"

    @property
    def text(self) -> Path:
        """The gzipped entries."""
        return self.folder / f"freedict-{self.name}.dict.dz"

    def translations(self, words: Iterable[str]) -> dict[str, set[str]]:
        """Translations of each word that has an entry; both sides as `fold` leaves them."""
        wanted = {fold(word) for word in words}
        entries = gzip.decompress(self.text.read_bytes())
        found: dict[str, set[str]] = {}
        for line in self.index.read_text(encoding="utf-8").splitlines():
            headword, offset, length = line.split("\t")
            if (word := fold(headword)) in wanted:
                start = _number(offset)
                entry = entries[start : start + _number(length)].decode("utf-8")
                found.setdefault(word, set()).update(parse_entry(entry))
        return found


def fold(word: str) -> str:
    """The word without case, ligatures (œ) or a verb's object ("buy sth.", "etw. kaufen")."""
    plain = unicodedata.normalize("NFC", word).casefold().replace("œ", "oe")
    return _OBJECT.sub("", plain).strip()


def parse_entry(entry: str) -> set[str]:
    """Translations in a dictionary entry, folded; its first line repeats the headword."""
    lines = [line for line in entry.splitlines()[1:] if not _REMARK.match(line)]
    parts = (part for line in lines for part in _SEPARATOR.split(_NUMBERING.sub("", line)))
    return {fold(part) for part in parts} - {""}


def check() -> dict[str, dict[str, str]]:
    """What the dictionaries say of the pairs they do not confirm: list → pair → finding.

    Raises FileNotFoundError if a dictionary is not installed, naming its Debian package.
    """
    directions = {
        name: (Dictionary(f"eng-{code}", DICTIONARIES), Dictionary(f"{code}-eng", DICTIONARIES))
        for name, code in LANGUAGES.items()
    }
    missing = [d.package for pair in directions.values() for d in pair if not d.index.exists()]
    if missing:
        raise FileNotFoundError(f"Dictionaries missing: apt-get install {' '.join(missing)}")
    return {name: _unconfirmed(_read_pairs(name), *pair) for name, pair in directions.items()}


def _unconfirmed(
    pairs: list[tuple[str, str]], from_english: Dictionary, to_english: Dictionary
) -> dict[str, str]:
    forward = from_english.translations(x for x, _ in pairs)
    backward = to_english.translations(y for _, y in pairs)
    return {
        f"{x} → {y}": "; ".join(
            (_describe(from_english, forward, x), _describe(to_english, backward, y))
        )
        for x, y in pairs
        if fold(y) not in forward.get(fold(x), ()) and fold(x) not in backward.get(fold(y), ())
    }


def _describe(dictionary: Dictionary, found: dict[str, set[str]], word: str) -> str:
    if fold(word) not in found:
        return f"{dictionary.name} has no headword '{word}'"
    return f"{dictionary.name} gives {', '.join(sorted(found[fold(word)]))}"


def _read_pairs(name: str) -> list[tuple[str, str]]:
    lines = (LISTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [(row["x"], row["y"]) for row in rows]


def _number(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * 64 + _BASE64.index(digit)
    return value
