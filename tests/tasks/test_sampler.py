from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness_ext.errors import UsageError
from tasks.sampler import EpisodeSampler
from tasks.word_task import Pair, documents


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
