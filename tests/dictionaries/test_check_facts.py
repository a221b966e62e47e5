"""Reads a WordNet and a Factbook of a few lines, in the format of the real ones."""

from pathlib import Path

import pytest

from tests.dictionaries.check_facts import (
    COMPUTED,
    Country,
    Nouns,
    Sources,
    computed_doubts,
    contains,
    fold,
)

WORDNET = (
    "  1 licence\n"
    "00000001 15 n 01 Asia 0 000 | the largest continent  \n"
    "00000002 15 n 02 Burma 0 Myanmar 0 001 #p 00000001 n 0000 | a republic  \n"
    "00000003 15 n 02 Yangon 0 Rangoon 0 001 #p 00000002 n 0000 | the largest city of Myanmar  \n"
    "00000004 18 n 02 Schiller 0 Friedrich_von_Schiller 0 000 | German poet  \n"
    "00000005 04 n 01 castle_in_Spain 0 000 | absentminded dreaming  \n"
)
COUNTRIES = [
    Country(
        names=frozenset({"burma", "union of burma"}),
        capital="Rangoon; Nay Pyi Taw is the administrative capital",
        continent="Southeast Asia",
        religions="Buddhist 87.9%, Christian 6.2%",
    )
]


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    path = tmp_path / "data.noun"
    path.write_text(WORDNET, encoding="latin-1")
    return Sources(Nouns(path), COUNTRIES)


def test_names_are_compared_without_case_accents_and_apostrophes() -> None:
    assert fold("São Tomé") == "sao tome"
    assert fold("The Søren N'Djamena-Łódź") == "soren ndjamena lodz"


def test_a_word_counts_only_in_its_own_case_and_as_a_whole() -> None:
    assert contains("a Pole by birth", ["Pole"])
    assert not contains("a polecat at the pole", ["Pole"])


def test_a_capital_is_found_under_another_name_of_country_and_city(sources: Sources) -> None:
    assert sources.capital("Myanmar", "Yangon") == ""
    assert sources.capital("Myanmar", "Mandalay") == f"Factbook: {COUNTRIES[0].capital}"


def test_a_city_has_the_continent_and_the_religion_of_its_country(sources: Sources) -> None:
    assert sources.continent("Yangon", "Asia") == ""
    assert sources.continent("Yangon", "Africa") == "Factbook: Southeast Asia"
    assert sources.religion("Yangon", "Buddhism") == ""
    assert sources.religion("Yangon", "Christianity") == "Factbook: Buddhist 87.9%"


def test_a_part_of_a_full_name_finds_a_person_but_not_a_phrase(sources: Sources) -> None:
    assert sources.language("Friedrich Schiller", "German") == ""
    assert sources.language("Friedrich Schiller", "French") == "WordNet: German poet"
    assert sources.nouns.named("Spain") == []


def test_computed_lists_name_the_right_answer_for_a_wrong_one() -> None:
    assert computed_doubts(COMPUTED["list_last"], "a, b, c", "c") == ""
    assert computed_doubts(COMPUTED["list_last"], "a, b, c", "b") == "computed: c"
    assert computed_doubts(COMPUTED["next_letter"], "y", "z") == ""
