"""The translation check, on a dictionary small enough to read."""

from __future__ import annotations

import gzip
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ENTRIES = {
    "dog": "dog /dɔg/\nchien, clébard\n",
    "egg": "egg /ɛg/\n1. oeuf\n2. pousser <v>\n",
    "buy sth": 'buy sth. /baɪ/ <v>\netw. kaufen <v, trans>\n      "buy a cow" - eine Kuh kaufen\n',
}


@pytest.fixture
def translations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return import_module("check_translations")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return import_module("check")


def write_dictionary(folder: Path, name: str) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def base64(number: int) -> str:
        return (base64(number // 64) if number >= 64 else "") + alphabet[number % 64]

    text, rows = b"", []
    for headword, entry in ENTRIES.items():
        encoded = entry.encode()
        rows.append(f"{headword}\t{base64(len(text))}\t{base64(len(encoded))}")
        text += encoded
    (folder / f"freedict-{name}.dict.dz").write_bytes(gzip.compress(text))
    (folder / f"freedict-{name}.index").write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_each_word_finds_its_own_entry(translations: ModuleType, tmp_path: Path) -> None:
    write_dictionary(tmp_path, "eng-xxx")
    dictionary = translations.Dictionary("eng-xxx", tmp_path)
    assert dictionary.translations(["dog", "buy", "cat"]) == {
        "dog": {"chien", "clébard"},
        "buy": {"kaufen"},
    }


def test_case_ligature_and_composition_do_not_matter(translations: ModuleType) -> None:
    assert translations.fold("Œuf") == translations.fold("oeuf")
    assert translations.fold("e\N{COMBINING ACUTE ACCENT}t\u00e9") == "\u00e9t\u00e9"


def test_accents_do_matter(translations: ModuleType) -> None:
    assert translations.fold("caffé") != translations.fold("caffè")


def test_numbers_labels_notes_and_examples_are_not_translations(translations: ModuleType) -> None:
    entry = (
        "open /oʊpən/ <v>\n"
        "1. [Am.] öffnen <v, trans>, offen <adj>\n"
        '      "open the door" - die Tür öffnen\n'
        "   Synonym: {unlock}\n"
        " see: {opening}\n"
    )
    assert translations.parse_entry(entry) == {"öffnen", "offen"}


def test_missing_dictionaries_are_reported_by_their_debian_packages(
    translations: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dictionary(tmp_path, "eng-fra")
    monkeypatch.setattr(translations, "DICTIONARIES", tmp_path)
    monkeypatch.setattr(translations, "LANGUAGES", {"french": "fra"})
    with pytest.raises(FileNotFoundError, match=r"apt-get install dict-freedict-fra-eng$"):
        translations.check()


def test_a_pair_is_a_problem_unless_findings_and_reasons_agree(checks: ModuleType) -> None:
    found = {"french": {"dog → chat": "eng-fra gives chien", "egg → œuf": "no headword"}}
    reasons = {"french": {"egg → œuf": "a gap of the dictionary", "cow → vache": "a gap"}}
    unexplained, outdated = checks.compare(found, reasons)
    assert unexplained.startswith("french: dog → chat is not confirmed (eng-fra gives chien)")
    assert outdated.startswith("french: cow → vache is confirmed, or gone")
