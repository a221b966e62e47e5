from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from harness_ext.compare.gap import GapChange, WordMap, accuracy, gap_by_pair, gap_change
from harness_ext.compare.record import read_output
from harness_ext.compare.runs import Run
from harness_ext.compare.statistics import Interval, accuracy_interval, mean_interval
from harness_ext.errors import UsageError
from tests.compare.output import Document, Right, answered, write_output

RunOf = Callable[..., Run]

UPPER = WordMap("upper")
ANTONYM = WordMap("antonym", has_inverse=False)


@pytest.fixture
def run_of(tmp_path: Path) -> RunOf:
    """Builds a run of a map's tasks from a rule that says which answers are right."""

    def build(
        right: Right, word_map: WordMap = UPPER, method: str = "tv", count: int = 4, draws: int = 1
    ) -> Run:
        answers = answered(word_map.tasks, right, count, draws)
        return read_output(write_output(tmp_path / f"{method}{count}", answers, method))

    return build


def test_the_gap_of_each_pair_is_one_way_minus_both_ways(run_of: RunOf) -> None:
    def right(doc: Document) -> int:
        known = {
            "a0|A0": ["forward", "inverse"],
            "a1|A1": ["forward", "bijection"],
            "a2|A2": ["inverse"],
            "a3|A3": [],
        }
        return doc["task"].partition("_")[0] in known[doc["pair"]]

    gaps = gap_by_pair(run_of(right), UPPER)
    assert gaps == {"a0|A0": 1, "a1|A1": -0.5, "a2|A2": 0.5, "a3|A3": 0}


def test_a_map_without_an_inverse_compares_its_one_direction(run_of: RunOf) -> None:
    def right(doc: Document) -> int:
        return doc["task"].startswith("forward") or doc["query"] == "a0"

    gaps = gap_by_pair(run_of(right, ANTONYM), ANTONYM)
    assert gaps == {"a0|A0": 0.5, "a1|A1": 1, "a2|A2": 1, "a3|A3": 1}


def test_draws_are_averaged_within_their_query_before_queries(run_of: RunOf) -> None:
    def right(doc: Document) -> int:
        return doc["task"].startswith("bijection") and doc["side"] == "x" and doc["draw"] < 2

    run = run_of(right, draws=3)
    once = [a for a in run.answers["bijection_upper"] if a.side == "x" or a.draw == 0]
    uneven = Run(run.cell, run.results, {**run.answers, "bijection_upper": tuple(once)})
    assert list(gap_by_pair(uneven, UPPER).values()) == pytest.approx([-1 / 3] * 4)


def test_the_change_of_the_gap_is_paired_by_pair(run_of: RunOf) -> None:
    rng = np.random.default_rng(3)
    coins: dict[tuple[str, ...], int] = {}

    def coin(method: str) -> Right:
        def right(doc: Document) -> int:
            key = (method, doc["task"], doc["query"])
            return coins.setdefault(key, int(rng.integers(2)))

        return right

    icl = run_of(coin("none"), method="none", count=8)
    tv = run_of(coin("tv"), method="tv", count=8)

    def gap(method: str, number: int) -> float:
        def score(direction: str, query: str) -> int:
            return coins[method, f"{direction}_upper", query]

        one_way = score("forward", f"a{number}") + score("inverse", f"A{number}")
        both = score("bijection", f"a{number}") + score("bijection", f"A{number}")
        return (one_way - both) / 2

    change = gap_change(icl, tv, UPPER)
    before = [gap("none", number) for number in range(8)]
    after = [gap("tv", number) for number in range(8)]
    assert change.pairs == 8
    assert change.icl == mean_interval(before)
    assert change.tv == mean_interval(after)
    assert change.difference == mean_interval(list(np.subtract(after, before)), bound=2)


def test_the_bijection_gap_is_the_difference_of_the_accuracies(run_of: RunOf) -> None:
    run = run_of(lambda doc: len(doc["task"] + doc["query"]) % 2, count=12, draws=2)
    forward, inverse, both = (accuracy(run.answers[task]).estimate for task in UPPER.tasks)
    gaps = gap_by_pair(run, UPPER)
    assert np.mean(list(gaps.values())) == pytest.approx((forward + inverse) / 2 - both)


def test_accuracy_clusters_by_pair(run_of: RunOf) -> None:
    run = run_of(lambda doc: doc["pair"] == "a0|A0" or doc["query"] == "a1", draws=3)
    assert accuracy(run.answers["bijection_upper"]) == accuracy_interval([6, 3, 0, 0], [6] * 4)


def test_an_accuracy_of_one_pair_is_refused(run_of: RunOf) -> None:
    run = run_of(lambda doc: 1, count=1, draws=5)
    with pytest.raises(UsageError, match="forward_upper was run on 1 pair"):
        accuracy(run.answers["forward_upper"])


def test_runs_over_different_documents_are_refused(run_of: RunOf) -> None:
    icl = run_of(lambda doc: 1, method="none", count=4)
    tv = run_of(lambda doc: 1, method="tv", count=5)
    message = "forward_upper in tiny/none-0shot and forward_upper in tiny/tv-0shot .* documents: 1"
    with pytest.raises(UsageError, match=message):
        gap_change(icl, tv, UPPER)


def test_tasks_over_different_pairs_are_refused(run_of: RunOf) -> None:
    run = run_of(lambda doc: 1)
    shorter = {**run.answers, "inverse_upper": run.answers["inverse_upper"][1:]}
    message = r"inverse_upper in .* and bijection_upper in .* pairs: 1 .* such as a0\|A0"
    with pytest.raises(UsageError, match=message):
        gap_by_pair(Run(run.cell, run.results, shorter), UPPER)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ((0.01, 0.4), "wider with TV"),
        ((-0.4, -0.01), "narrower with TV"),
        ((-0.01, 0.4), "no difference shown"),
        ((0.0, 0.4), "no difference shown"),
        ((-0.4, 0.0), "no difference shown"),
    ],
)
def test_the_verdict_says_no_more_than_the_interval(ends: Sequence[float], verdict: str) -> None:
    some = Interval(0, -1, 1)
    assert GapChange(10, some, some, Interval(sum(ends) / 2, *ends)).verdict == verdict
