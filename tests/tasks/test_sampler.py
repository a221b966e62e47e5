from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness_ext.errors import UsageError
from harness_ext.pair_lists import Pair
from tasks.sampler import BalancedSampler, EpisodeSampler, shuffled_words
from tasks.word_task import documents


def pairs(*words: tuple[str, str]) -> list[Pair]:
    return [Pair((x,), (y,), "train") for x, y in words]


def numbered(count: int) -> list[Pair]:
    return pairs(*((f"q{n}", f"Q{n}") for n in range(count)))


def sampler(pool: list[Pair], direction: str = "forward", seed: int | None = 1234) -> Any:
    return EpisodeSampler(documents(pool, direction)).set_rnd(seed)


def asked(x: str = "new", y: str = "NEW", draw: int = 0) -> dict[str, Any]:
    return {**documents(pairs((x, y)), "forward")[0], "draw": draw}


def names(order: list[dict[str, Any]]) -> list[str]:
    return [doc["pair"] for doc in order]


def test_the_order_is_the_same_each_time_and_in_every_process() -> None:
    order = names(sampler(numbered(8)).order(asked()))
    assert order == names(sampler(numbered(8)).order(asked()))
    assert order == ["q0|Q0", "q1|Q1", "q3|Q3", "q7|Q7", "q5|Q5", "q6|Q6", "q4|Q4", "q2|Q2"]


@pytest.mark.parametrize(
    "other",
    [
        lambda: sampler(numbered(30), seed=5).order(asked()),
        lambda: sampler(numbered(30)).order(asked(x="newer")),
        lambda: sampler(numbered(30)).order(asked(draw=1)),
        lambda: sampler(numbered(30)).order(asked(), draw=1),
        lambda: sampler(numbered(30)).order(asked(), draw="0"),
    ],
    ids=["seed", "query", "draw number", "draw", "draw named by a text"],
)
def test_the_order_depends_on(other: Any) -> None:
    assert names(sampler(numbered(30)).order(asked())) != names(other())


def test_the_order_does_not_depend_on_earlier_draws_or_on_the_order_of_the_pool() -> None:
    drawn = sampler(numbered(30))
    drawn.sample(5, eval_doc=asked(x="another"))
    assert drawn.order(asked()) == sampler(numbered(30)[::-1]).order(asked())


def test_a_pair_more_in_the_list_moves_no_other() -> None:
    longer = names(sampler(numbered(31)).order(asked()))
    longer.remove("q30|Q30")
    assert longer == names(sampler(numbered(30)).order(asked()))


def test_every_place_is_equally_likely() -> None:
    first = Counter(
        sampler(numbered(5)).order(asked(), draw=draw)[0]["pair"] for draw in range(2000)
    )
    assert all(320 < count < 480 for count in first.values())  # 400 ± 4.5 standard deviations


def test_a_bijection_shows_each_pair_once_from_either_side() -> None:
    orders = [sampler(numbered(20), "bijection").order(asked(), draw=n) for n in range(50)]
    assert all(sorted(names(order)) == sorted(names(orders[0])) for order in orders)
    assert len(orders[0]) == 20
    sides = Counter(doc["side"] for order in orders for doc in order)
    assert 430 < sides["x"] < 570  # 500 ± 4.4 standard deviations


def test_a_document_of_the_pool_gets_every_pair_but_its_own() -> None:
    pool = numbered(6)
    for doc in documents(pool, "bijection"):
        order = sampler(pool, "bijection").order(doc)
        assert sorted(names(order)) == sorted(
            pair.name for pair in pool if pair.name != doc["pair"]
        )


def test_the_tested_query_stands_in_no_demonstration_as_a_query_or_as_a_target() -> None:
    pool = pairs(("hot", "cold"), ("new", "old"), ("old", "young"), ("fresh", "new"), ("a", "b"))
    for direction in ("forward", "bijection"):
        for draw in range(10):
            order = sampler(pool, direction).order(asked("new", "stale"), draw)
            assert sorted(names(order)) == ["a|b", "hot|cold", "old|young"]


def test_fewer_demonstrations_are_the_beginning_of_more() -> None:
    drawn = sampler(numbered(20))
    order = drawn.order(asked())
    assert [drawn.sample(n, eval_doc=asked()) for n in (0, 1, 4, 20)] == [
        order[:n] for n in (0, 1, 4, 20)
    ]


def test_more_demonstrations_than_there_are_is_refused_with_both_numbers() -> None:
    with pytest.raises(UsageError, match=r"6 demonstrations.*5 available"):
        sampler(numbered(5)).sample(6, eval_doc=asked())


def test_sampling_for_no_document_is_refused() -> None:
    with pytest.raises(UsageError, match="WordTask"):
        sampler(numbered(5)).sample(1)


def test_without_a_seed_orders_differ_from_one_sampler_to_the_next_but_not_within_one() -> None:
    unseeded = sampler(numbered(30), seed=None)
    assert unseeded.order(asked()) == unseeded.order(asked())
    assert unseeded.order(asked()) != sampler(numbered(30), seed=None).order(asked())


def labelled(**counts: int) -> Any:
    """A pool of so many sentences for each label, and its balanced sampler."""
    words = [(f"{label}{n}", label) for label, count in counts.items() for n in range(count)]
    return BalancedSampler(documents(pairs(*words), "forward")).set_rnd(1234)


def targets(order: list[dict[str, Any]]) -> list[str]:
    return [doc["target"] for doc in order]


def test_a_balanced_order_shows_every_label_once_before_one_comes_again() -> None:
    order = targets(labelled(a=9, b=9, c=9).order(asked()))
    assert [set(order[start : start + 3]) for start in range(0, 27, 3)] == [{"a", "b", "c"}] * 9


def test_a_balanced_order_keeps_the_order_of_each_label_and_every_pair() -> None:
    balanced = labelled(a=5, b=9)
    plain = EpisodeSampler(balanced.fewshot_docs()).set_rnd(1234)
    for label in ("a", "b"):
        ranked = [[d for d in s.order(asked()) if d["target"] == label] for s in (plain, balanced)]
        assert ranked[0] == ranked[1]


def test_labels_that_have_run_out_are_left_out_of_later_rounds() -> None:
    order = targets(labelled(a=1, b=3, c=2).order(asked()))
    assert [set(order[:3]), set(order[3:5]), order[5]] == [{"a", "b", "c"}, {"b", "c"}, "b"]


def test_within_a_round_every_order_of_labels_is_equally_likely() -> None:
    balanced = labelled(a=4, b=4, c=4)
    orders = [targets(balanced.order(asked(), draw)) for draw in range(1200)]
    for start in (0, 3):
        counts = Counter(tuple(order[start : start + 3]) for order in orders)
        assert len(counts) == 6
        assert all(140 < count < 260 for count in counts.values())  # 200 ± 4.6 deviations


def test_the_demonstrations_do_not_depend_on_the_label_of_the_query() -> None:
    balanced = labelled(a=4, b=4)
    one, other = (balanced.order(asked("new", label)) for label in ("a", "b"))
    assert one == other


def test_fewer_balanced_demonstrations_are_the_beginning_of_more() -> None:
    balanced = labelled(a=6, b=6)
    order = balanced.order(asked())
    assert [balanced.sample(n, eval_doc=asked()) for n in (1, 3, 12)] == [
        order[:n] for n in (1, 3, 12)
    ]


def test_shuffled_words_are_the_same_words_in_another_order_each_time_the_same() -> None:
    sentence = "We danced all night, and nobody went home."
    prompt = shuffled_words({"query": sentence})
    assert prompt == shuffled_words({"query": sentence})
    shown = prompt.removeprefix("Example: ").removesuffix(" →")
    assert shown != sentence and sorted(shown.split()) == sorted(sentence.split())


@pytest.mark.parametrize("query", ["one two", "two one", "a b", "b a"])
def test_two_words_change_places(query: str) -> None:
    first, second = query.split()
    assert shuffled_words({"query": query}) == f"Example: {second} {first} →"


@pytest.mark.parametrize("query", ["alone", "no no no"])
def test_words_without_another_order_stay_as_they_are(query: str) -> None:
    assert shuffled_words({"query": query}) == f"Example: {query} →"


def test_every_order_of_the_words_is_about_equally_likely() -> None:
    firsts = Counter(shuffled_words({"query": f"{n} b c"}).split()[1] for n in range(600))
    assert firsts["b"] + firsts["c"] > 2 * 200 and 180 < firsts["b"] < 320
