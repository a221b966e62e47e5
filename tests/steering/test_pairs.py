from __future__ import annotations

from typing import Any

import pytest

from harness_ext.errors import UsageError
from harness_ext.steering.episodes import (
    EpisodeShape,
    development_episodes,
    members,
    reusable_episodes,
)
from harness_ext.steering.pairs import PairContext, cue_of

TEMPLATE = "Example: {x} →"
PAIRS = [("hot", "cold"), ("cat", ["Katze", "Kater"]), ("cold", "hot"), ("dog", ("Hund",))]


def context(pairs: Any = PAIRS, template: str = TEMPLATE) -> PairContext:
    return PairContext.of(pairs, template, " ", "\n")


def words(documents: Any) -> list[str]:
    return [document["x"] for document in documents]


def test_prompts_show_the_first_answers_and_end_in_the_cue() -> None:
    own = PairContext.of(PAIRS, "In: {x}\nOut:", " = ", "\n\n")
    hot, cat, *_ = own.pool()
    assert own.prompt([cat, hot], cat) == (
        "In: cat\nOut: = Katze\n\nIn: hot\nOut: = cold\n\nIn: cat\nOut:"
    )
    assert own.prompt([], hot) == "In: hot\nOut:"
    assert (own.cue, own.delimiter) == ("Out:", " = ")
    assert own.answers(cat) == ["Katze", "Kater"]


def test_braces_in_words_and_templates_are_ordinary_characters() -> None:
    own = context([("{x}", "{y}"), ("{", "}")], "{a} {x} {}:")
    first, second = own.pool()
    assert own.prompt([first], second) == "{a} {x} {}: {y}\n{a} { {}:"


def test_a_pair_and_its_mirror_are_one_to_an_episode() -> None:
    own = context()
    hot, cat, cold, dog = own.pool()
    assert own.identity(hot) == own.identity(cold)
    assert len({own.identity(d) for d in (hot, cat, dog)}) == 3
    assert own.key(hot) != own.key(cold)
    seen = set()
    for draw in range(20):
        assert sorted(words(own.order(hot, draw, 0))) == ["cat", "dog"]
        order = words(own.order(cat, draw, 0))
        assert len(order) == 2
        assert {"dog"} < {*order} < {"dog", "hot", "cold"}
        seen.update(order)
    assert seen == {"dog", "hot", "cold"}


def test_mirrors_through_several_answers_are_one_group() -> None:
    own = context([("b", "a"), ("c", "a"), ("a", ["b", "c"]), ("d", "a"), ("e", "f")])
    groups = [own.identity(document) for document in own.pool()]
    assert groups[0] == groups[1] == groups[2]
    assert len({*groups[2:]}) == 3  # d asks for a, but a does not accept d


def test_a_word_that_is_its_own_answer_is_a_pair_like_any_other() -> None:
    own = context([("a", "a"), ("b", "b")])
    assert words(own.order(own.pool()[0], 0, 0)) == ["b"]


def test_an_order_is_a_function_of_document_draw_and_seed() -> None:
    pairs = [(f"x{n}", f"y{n}") for n in range(12)]
    own, again = context(pairs), context(pairs)
    first, second = own.pool()[:2]
    assert own.order(first, 0, 0) == again.order(first, 0, 0)
    orders = [words(own.order(*given)) for given in ((first, 0, 0), (first, 1, 0), (first, 0, 1))]
    assert len({tuple(order) for order in orders}) == 3
    assert all(sorted(order) == sorted(words(own.pool()[1:])) for order in orders)
    assert words(own.order(second, 0, 0))[:5] != orders[0][:5]


def test_episodes_hold_no_pair_twice_and_never_that_of_a_development_query() -> None:
    pairs = [(f"{a}{side}", f"{a}{other}") for a in "abcdef" for side, other in ("12", "21")]
    own, shape = context(pairs), EpisodeShape(3, 0, 2)
    for episode in development_episodes(own, shape, 24, 0):
        held = [own.identity(d) for d in (*episode.demonstrations, *episode.dummies)]
        assert len({*held}) == 5
        assert own.identity(episode.query) not in held
    for episode in reusable_episodes(own, shape, 24, 0):
        assert len(members(own, episode)) == 5


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a", "b"), ("a", "c")], r"'a' begins several pairs: \('b',\) and \('c',\)"),
        ([("a", "b"), ("a", "b")], "'a' begins several pairs"),
        ([("", "b")], r"\('', 'b'\) has an empty word"),
        ([("a", " \n")], "has an empty word"),
        ([("a", ["b", ""])], "has an empty word"),
        ([("a → b", "c")], "the cue '→' also occurs inside 'a → b'"),
        ([("a", ["b", "→"])], "the cue '→' also occurs inside '→'"),
        ([("a", [])], r"\('a', \[\]\) is not a pair; pairs takes \(x, y\)"),
        ([("a", "b", "c")], "is not a pair"),
        ([("a", 1)], "is not a pair"),
        ([(1, "a")], "is not a pair"),
        (["ab"], "'ab' is not a pair"),
        ([{"x": "a", "y": "b"}], "is not a pair"),
    ],
)
def test_words_that_cannot_serve_are_refused(pairs: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        context(pairs)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Example: →", "has {x} 0 times"),
        ("{x} {x} →", "has {x} 2 times"),
        ("Example: {x}", "does not end in a cue"),
        ("→ {x} \n", "does not end in a cue"),
        ("Example: {x} → ", "does not end in a cue"),
        ("Example: {x} → {y}", "holds the answer"),
    ],
)
def test_a_template_without_a_place_or_a_cue_is_refused(template: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        context(template=template)


def test_the_cue_is_what_follows_the_place() -> None:
    assert cue_of("{x}->") == "->"
    assert cue_of("→ {x}\nThe answer is:") == "The answer is:"


def test_room_is_counted_in_pairs_without_their_mirrors() -> None:
    own = context()
    own.check_room(1, 1)
    with pytest.raises(UsageError, match=r"needs 4 pairs.* are 3, counting .* lower demos to 1"):
        own.check_room(2, 1)
    with pytest.raises(UsageError, match=r"there are 2\. Give more pairs\.$"):
        context([("a", "b"), ("c", "d")]).check_room(1, 1)
