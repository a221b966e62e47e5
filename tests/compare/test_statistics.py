from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from harness_ext.compare.statistics import (
    Interval,
    accuracy_interval,
    mean_interval,
    task_mean_interval,
)

NOMINAL, LEAST = 0.95, 0.93
REPETITIONS = 1500


def wilson(right: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval as what it is: the shares p with |p̂ − p| ≤ z·√(p(1−p)/n), solved."""
    share = right / n
    a, b, c = 1 + z**2 / n, -(2 * share + z**2 / n), share**2
    root = math.sqrt(b**2 - 4 * a * c)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def correlated_counts(
    rng: np.random.Generator, clusters: int, draws: int, share: float, correlation: float
) -> np.ndarray:
    """Right answers [repetitions, clusters] from beta-binomial clusters."""
    shape = (REPETITIONS, clusters)
    if correlation == 0:
        return rng.binomial(draws, share, shape)
    if correlation == 1:
        return draws * rng.binomial(1, share, shape)
    strength = 1 / correlation - 1
    return rng.binomial(draws, rng.beta(share * strength, (1 - share) * strength, shape))


@pytest.mark.parametrize(("right", "clusters"), [(0, 10), (3, 10), (13, 13), (57, 60)])
def test_one_answer_per_cluster_gives_wilsons_interval_with_students_t(
    right: int, clusters: int
) -> None:
    found = accuracy_interval([1] * right + [0] * (clusters - right), [1] * clusters)
    expected = wilson(right, clusters, stats.t.ppf(0.975, clusters - 1))
    assert found.estimate == pytest.approx(right / clusters)
    assert ends(found) == pytest.approx(expected, abs=1e-12)


def test_clusters_that_agree_within_count_as_one_answer_each() -> None:
    once = accuracy_interval([1, 1, 1, 0, 0, 0, 0, 0], [1] * 8)
    assert ends(accuracy_interval([5, 5, 5, 0, 0, 0, 0, 0], [5] * 8)) == pytest.approx(ends(once))


def test_clusters_that_are_all_alike_count_every_answer() -> None:
    found = accuracy_interval([3] * 40, [6] * 40)
    assert ends(found) == pytest.approx(wilson(120, 240, stats.t.ppf(0.975, 39)))


def test_all_right_and_all_wrong_claim_no_more_than_their_clusters() -> None:
    most = stats.t.ppf(0.975, 9)
    assert ends(accuracy_interval([0] * 10, [6] * 10)) == pytest.approx(wilson(0, 10, most))
    assert ends(accuracy_interval([6] * 10, [6] * 10)) == pytest.approx(wilson(10, 10, most))


def test_clusters_of_many_sizes_share_one_design_effect() -> None:
    right, asked = [5, 0, 3, 1, 1], [5, 1, 3, 2, 4]
    # The two half clusters have half a weight, so everything is written out twice but for them.
    k = np.array([*right, *right, 3, 0], dtype=float)
    n = np.array([*asked, *asked, 3, 3], dtype=float)
    share, total = k.sum() / n.sum(), n.sum() / 2
    variance = 6 / 5 * ((k - share * n) ** 2).sum() / 2 / total**2
    effective = 15 * share * (1 - share) / total / variance
    assert 15 / (55 / 15) < effective < 15
    expected = wilson(10 / 15 * effective, effective, stats.t.ppf(0.975, 4))
    assert ends(accuracy_interval(right, asked)) == pytest.approx(expected)


def test_swapping_right_and_wrong_mirrors_the_interval() -> None:
    right, asked = [5, 0, 2, 4, 1], [5, 3, 2, 6, 4]
    found = accuracy_interval(right, asked)
    mirrored = accuracy_interval([n - k for k, n in zip(right, asked, strict=True)], asked)
    assert ends(found) == pytest.approx((1 - mirrored.high, 1 - mirrored.low))


@pytest.mark.parametrize("clusters", [10, 13, 60])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_accuracy_of_single_answers_is_covered_exactly_computed(
    clusters: int, share: float
) -> None:
    covered = 0.0
    for right in range(clusters + 1):
        low, high = ends(accuracy_interval([1] * right + [0] * (clusters - right), [1] * clusters))
        covered += stats.binom.pmf(right, clusters, share) * (low <= share <= high)
    assert covered >= LEAST


@pytest.mark.parametrize("clusters", [10, 13, 60])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_accuracy_of_correlated_draws_is_covered(clusters: int, share: float) -> None:
    rng = np.random.default_rng(0)
    for draws, correlation in product((2, 5, 6), (0, 0.3, 0.6, 1)):
        counts = correlated_counts(rng, clusters, draws, share, correlation)
        # The order of clusters says nothing, and few different sets of counts occur.
        sets, times = np.unique(np.sort(counts), axis=0, return_counts=True)
        found = (accuracy_interval(row, [draws] * clusters) for row in sets.tolist())
        hits = [interval.low <= share <= interval.high for interval in found]
        covered = float(np.dot(hits, times)) / REPETITIONS
        assert covered >= LEAST, f"{draws} draws, correlation {correlation}: {covered:.3f}"


def paired_gaps(
    rng: np.random.Generator, clusters: int, draws: int, right: tuple[tuple[float, ...], ...]
) -> np.ndarray:
    """Changes of the gap [repetitions, clusters] from ICL to TV; a pair's answers depend.

    `right` holds, for ICL and for TV, the accuracy of X→Y, of Y→X and of X↔Y.
    """
    difficulty = rng.standard_normal((REPETITIONS, clusters, 1, 1))
    gaps = []
    for forward, inverse, both in right:
        queries = [
            0.6 * difficulty
            + 0.5 * rng.standard_normal((REPETITIONS, clusters, 4, 1))
            + math.sqrt(1 - 0.6**2 - 0.5**2)
            * rng.standard_normal((REPETITIONS, clusters, 4, draws))
        ]
        limits = stats.norm.ppf([forward, inverse, both, both])
        accuracy = (queries[0] < limits[:, None]).mean(axis=3)
        gaps.append(accuracy[..., :2].mean(axis=2) - accuracy[..., 2:].mean(axis=2))
    return gaps[1] - gaps[0]


ACCURACIES = {
    "middling": ((0.9, 0.9, 0.2), (0.45, 0.45, 0.2)),
    "collapse": ((1, 1, 1), (0.9, 1, 0.55)),
    "nearly perfect": ((1, 1, 1), (1, 1, 0.95)),
    "one direction lost": ((1, 1, 0.5), (0.9, 1, 0.5)),
    "nearly nothing": ((0, 0, 0), (0.1, 0.05, 0)),
    "no change": ((0.8, 0.8, 0.4), (0.8, 0.8, 0.4)),
}


@pytest.mark.parametrize(("clusters", "draws"), [(10, 1), (10, 6), (13, 1), (60, 1)])
@pytest.mark.parametrize("case", ACCURACIES)
def test_a_change_of_gaps_is_covered(clusters: int, draws: int, case: str) -> None:
    icl, tv = ACCURACIES[case]
    truth = ((tv[0] + tv[1]) / 2 - tv[2]) - ((icl[0] + icl[1]) / 2 - icl[2])
    changes = paired_gaps(np.random.default_rng(0), clusters, draws, (icl, tv))
    found = (mean_interval(row, bound=2) for row in changes[:600].tolist())
    covered = float(np.mean([interval.low <= truth <= interval.high for interval in found]))
    assert covered >= LEAST


def test_the_mean_interval_is_students_with_half_a_cluster_at_either_extreme() -> None:
    values = [0.5, 0.25, -0.5, 1.0, 0.0]
    # The half clusters have half a weight, so everything is written out twice but for them.
    doubled = np.array([*values, *values, -1, 1])
    centre, variance = doubled.mean(), doubled.var() * 6 / 5
    half = stats.t.ppf(0.975, 4) * math.sqrt(variance / 6)
    found = mean_interval(values, bound=2)
    assert found.estimate == pytest.approx(np.mean(values))
    assert ends(found) == pytest.approx((centre - half, centre + half))


def test_values_that_are_all_equal_leave_doubt() -> None:
    found = mean_interval([0.0] * 10)
    assert found.low < -0.1
    assert found.high > 0.1


def test_no_interval_reaches_beyond_what_is_possible() -> None:
    assert mean_interval([1.0] * 5).high == 1
    assert mean_interval([-2.0] * 3, bound=2).low == -2


@pytest.mark.parametrize(
    ("right", "asked"), [([1], [1]), ([2, 1], [1, 1]), ([0, 0], [1, 0]), ([1, 1], [1])]
)
def test_counts_that_cannot_be_are_refused(right: list[int], asked: list[int]) -> None:
    with pytest.raises(ValueError):
        accuracy_interval(right, asked)


@pytest.mark.parametrize("values", [[0.5], [1.5, 0.0]])
def test_values_without_an_interval_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError):
        mean_interval(values)


def test_the_mean_over_tasks_counts_each_task_once() -> None:
    few, many = [(1, 1), (0, 1)], [(2, 2)] * 30
    assert task_mean_interval([few, many]).estimate == pytest.approx(0.75)


def test_the_mean_over_tasks_is_welchs_interval_with_shared_out_extreme_clusters() -> None:
    tasks = [[1, 0, -1, 1, 0], [0, 0, 1, 1, 1, 0, 0, 1]]
    # A task has half a cluster more at either extreme: written out twice, it is a whole one.
    doubled = [np.array([*values, *values, -1, 1], dtype=float) for values in tasks]
    counts = [len(values) + 1 for values in tasks]
    variances = [v.var() * n / (n - 1) / n for v, n in zip(doubled, counts, strict=True)]
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 4 + variances[1] ** 2 / 7)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(sum(variances)) / 2
    centre = (doubled[0].mean() + doubled[1].mean()) / 2
    found = task_mean_interval([[(v, 1) for v in values] for values in tasks], (-1, 1))
    assert found.estimate == pytest.approx((0.2 + 0.5) / 2)
    assert ends(found) == pytest.approx((centre - half, centre + half))


LAYOUTS = {
    "bijections": [(25, 2)] * 10 + [(10, 5), (13, 4)],
    "forward": [(50, 1)] * 11 + [(10, 5), (13, 4)],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("better", "worse"), [(0.3, 0.02), (0.06, 0.05), (0.02, 0), (0.005, 0), (0.9, 0)]
)
def test_a_mean_difference_over_tasks_is_covered(layout: str, better: float, worse: float) -> None:
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(300):
        tasks = []
        for clusters, size in LAYOUTS[layout]:
            # Half of the answers of a cluster share one draw.
            own, shared = rng.random((clusters, size)), rng.random((clusters, 1))
            drawn = np.where(rng.random((clusters, size)) < 0.5, own, shared)
            sums = (drawn < better).sum(axis=1) - (drawn > 1 - worse).sum(axis=1)
            tasks.append([(value, size) for value in sums.tolist()])
        found = task_mean_interval(tasks, extremes=(-1, 1))
        hits.append(found.low <= better - worse <= found.high)
    assert np.mean(hits) >= LEAST


@pytest.mark.parametrize("tasks", [[], [[(1, 1)]], [[(2, 1), (0, 1)]], [[(-1, 1), (0, 1)]]])
def test_tasks_without_an_interval_are_refused(tasks: list[list[tuple[int, int]]]) -> None:
    with pytest.raises(ValueError):
        task_mean_interval(tasks)
