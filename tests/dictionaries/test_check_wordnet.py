"""Reads a WordNet of a few lines, written in the format of the real files."""

from pathlib import Path

import pytest

from tests.dictionaries.check_wordnet import WordNet, antonym_doubts

FILES = {
    "noun.exc": "mice mouse\n",
    "verb.exc": "went go\n",
    "index.noun": "  1 licence\nmouse n 1 0 1 0 00000001\ncat n 1 0 1 0 00000002\n",
    "index.verb": "go v 1 0 1 0 00000001\nbake v 1 0 1 0 00000002\n",
    "data.noun": "00000001 05 n 01 mouse 0 000 | a rodent\n",
    "data.verb": "00000001 38 v 02 go 0 travel 0 000 01 + 08 00 | ! moves\n",
    "data.adj": (
        "00000001 00 a 02 hot 0 warm_up 0 002 ! 00000002 a 0101 & 00000003 a 0000 | high\n"
        "00000002 00 a 01 cold(p) 0 001 ! 00000001 a 0101 | low\n"
        "00000003 00 s 01 boiling 0 001 & 00000001 a 0000 | very hot\n"
    ),
    "data.adv": "00000001 02 r 01 here 0 000 | in this place\n",
}


@pytest.fixture
def wordnet(tmp_path: Path) -> WordNet:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="latin-1")
    return WordNet(tmp_path)


def test_an_exception_overrules_the_rules_of_detachment(wordnet: WordNet) -> None:
    assert wordnet.base_forms("went", "verb") == {"go"}
    assert wordnet.base_forms("mice", "noun") == {"mouse"}


def test_a_regular_form_leads_to_the_base_forms_that_are_headwords(wordnet: WordNet) -> None:
    assert wordnet.base_forms("baking", "verb") == {"bake"}
    assert wordnet.base_forms("cats", "noun") == {"cat"}
    assert wordnet.base_forms("dogs", "noun") == set()


def test_antonyms_are_found_from_either_side(wordnet: WordNet) -> None:
    assert wordnet.antonyms("hot") == {"cold"}
    assert wordnet.antonyms("cold") == {"hot", "warm_up"}
    assert antonym_doubts(wordnet, "hot", "cold") == antonym_doubts(wordnet, "cold", "hot") == ""


def test_a_word_similar_to_an_antonym_confirms_a_pair_from_either_side(wordnet: WordNet) -> None:
    assert antonym_doubts(wordnet, "cold", "boiling") == ""
    assert antonym_doubts(wordnet, "boiling", "cold") == ""


def test_a_doubt_says_what_wordnet_has_instead(wordnet: WordNet) -> None:
    doubt = antonym_doubts(wordnet, "cold", "here")
    assert doubt == "WordNet opposes 'cold' to hot, warm_up; WordNet opposes 'here' to nothing"
