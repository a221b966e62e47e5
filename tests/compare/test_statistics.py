from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from harness_ext.compare.statistics import (
    Interval,
    accuracy_interval,
    combined_interval,
    mean_interval,
    mean_p_value,
    reported_interval,
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


@pytest.mark.parametrize("clusters", [13, 50, 200])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("seeds", [1, 3])
def test_accuracy_over_seeds_is_covered_where_queries_differ_in_difficulty(
    clusters: int, share: float, seeds: int
) -> None:
    rng = np.random.default_rng(seeds)
    for draws, spread in product((1, 4), (None, 8, 1)):
        shape = (600, clusters)
        # Accuracies of the queries: all alike, or from a beta distribution around the truth.
        right = share if spread is None else rng.beta(share * spread, (1 - share) * spread, shape)
        counts = np.sort(rng.binomial(seeds * draws, right, shape), axis=1)
        sets, times = np.unique(counts, axis=0, return_counts=True)
        found = (accuracy_interval(row, [seeds * draws] * clusters) for row in sets.tolist())
        hits = [interval.low <= share <= interval.high for interval in found]
        assert np.dot(hits, times) / times.sum() >= LEAST, f"{draws} draws, spread {spread}"


@pytest.mark.parametrize(("clusters", "share"), [*product([13, 50], [0.05, 0.5, 0.95])])
def test_scores_between_0_and_1_are_covered(clusters: int, share: float) -> None:
    rng = np.random.default_rng(5)
    # F1-like: often exactly 0 or 1, else anything between.
    scores = rng.beta(share, 1 - share, (600, clusters))
    found = (accuracy_interval(row, [1] * clusters) for row in scores.tolist())
    assert np.mean([interval.low <= share <= interval.high for interval in found]) >= LEAST


def test_the_width_is_statsmodels_wilson_for_many_independent_answers() -> None:
    found = accuracy_interval([1] * 700 + [0] * 4300, [1] * 5000)
    assert ends(found) == pytest.approx(proportion_confint(700, 5000, method="wilson"), abs=1e-4)


@pytest.mark.parametrize("documents", [13, 50, 1000])
@pytest.mark.parametrize("right", [1, 6, 12])
def test_a_reported_error_gives_the_interval_of_the_answers(documents: int, right: int) -> None:
    share = right / documents
    stderr = math.sqrt(share * (1 - share) / (documents - 1))  # lm-eval's, of a mean
    expected = wilson(right, documents, stats.t.ppf(0.975, documents - 1))
    found = reported_interval(share, stderr, documents, is_share=True)
    assert ends(found) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("stderr", [0.0, None])
def test_all_right_has_an_interval_though_its_reported_error_is_nothing(
    stderr: float | None,
) -> None:
    found = reported_interval(1.0, stderr, 50, is_share=True)
    assert ends(found) == pytest.approx(wilson(50, 50, stats.t.ppf(0.975, 49)))


def test_a_reported_clustered_error_widens_the_interval() -> None:
    found = reported_interval(0.5, 0.1, 100, is_share=True)  # as of 25 independent answers
    assert ends(found) == pytest.approx(wilson(12.5, 25, stats.t.ppf(0.975, 99)))


def test_a_reported_score_without_bounds_has_students_interval() -> None:
    found = reported_interval(18.5, 0.7, 40, is_share=False)
    assert ends(found) == pytest.approx(stats.t.interval(0.95, 39, 18.5, 0.7))


@pytest.mark.parametrize(("stderr", "documents"), [(None, 40), (0.7, 0), (0.7, 1)])
def test_there_is_no_interval_where_nothing_is_known(stderr: float | None, documents: int) -> None:
    found = reported_interval(18.5, stderr, documents, is_share=False)
    assert found.estimate == 18.5 and not found.is_known


def test_scores_without_bounds_have_students_interval_over_clusters() -> None:
    values = [3.5, 18.0, 7.25, 9.0, 11.0]
    found = task_mean_interval([[(value, 1) for value in values]], extremes=None)
    expected = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert ends(found) == pytest.approx(expected)


def test_equal_scores_without_bounds_leave_no_width() -> None:
    found = task_mean_interval([[(2.0, 1)] * 4], extremes=None)
    assert found == Interval(2, 2, 2)


def test_tasks_that_share_their_clusters_vary_together() -> None:
    task = [(1.0, 1), (0.0, 1), (1.0, 1), (1.0, 1), (0.0, 1), (0.0, 1)]
    names = list("abcdef")
    together = task_mean_interval([task, task], None, names=[names, names])
    once = task_mean_interval([task], None, names=[names])
    apart = task_mean_interval([task, task], None)
    assert ends(together) == pytest.approx(ends(once))
    assert apart.high - apart.low < 0.8 * (together.high - together.low)


def test_clusters_join_tasks_through_others() -> None:
    tasks = [[(1.0, 1), (0.0, 1)], [(0.0, 1), (1.0, 1)], [(1.0, 1), (1.0, 2)]]
    chain = [["a", "b"], ["c", "d"], ["b", "c"]]
    # In the third task, of mean 2/3, b has (1 − 2/3) / 3 and c has (1 − 4/3) / 3.
    deviations = [1 / 4, -1 / 4 + 1 / 9, -1 / 4 - 1 / 9, 1 / 4]
    variance = 4 / 3 * sum(value**2 for value in deviations) / 9
    found = task_mean_interval(tasks, None, names=chain)
    half = stats.t.ppf(0.975, 3) * math.sqrt(variance)
    assert (found.high - found.low) / 2 == pytest.approx(half)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_a_mean_over_tasks_about_the_same_pairs_is_covered(share: float) -> None:
    rng = np.random.default_rng(2)
    limit = stats.norm.ppf(share)
    hits = []
    for _ in range(500):
        pair = rng.standard_normal((1, 40))
        own = rng.standard_normal((3, 40))
        right = (math.sqrt(0.6) * pair + math.sqrt(0.4) * own < limit).astype(float)
        tasks = [[(score, 1) for score in row] for row in right.tolist()]
        found = task_mean_interval(tasks, names=[list(range(40))] * 3)
        hits.append(found.low <= share <= found.high)
    assert np.mean(hits) >= LEAST


def test_known_intervals_combine_as_errors_do() -> None:
    found = combined_interval([Interval(0.5, 0.4, 0.7), Interval(0.9, 0.6, 0.95)])
    assert found.estimate == pytest.approx(0.7)
    assert found.low == pytest.approx(0.7 - math.hypot(0.1, 0.3) / 2)
    assert found.high == pytest.approx(0.7 + math.hypot(0.2, 0.05) / 2)


def test_an_unknown_interval_leaves_the_mean_without_one() -> None:
    assert not combined_interval([Interval(0.5, math.nan, math.nan), Interval(1, 1, 1)]).is_known


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.15, 0.3])
def test_the_p_value_agrees_with_the_interval(shift: float) -> None:
    values = np.random.default_rng(3).uniform(-1, 1, 30) * 0.5 + shift
    p = mean_p_value(list(values))
    for level in (0.5, 0.9, 0.95, 0.999):
        interval = mean_interval(list(values), level=level)
        assert (p < 1 - level) == (not interval.low <= 0 <= interval.high)
