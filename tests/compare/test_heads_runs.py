from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from harness_ext.compare.heads_runs import (
    ADDED,
    ICL,
    ZERO_SHOT,
    Arm,
    contrast,
    curves,
    mean_share,
)
from harness_ext.compare.statistics import accuracy_interval, task_mean_interval
from tests.compare.heads_output import grid, row, runs_of

TASK, LEAST = "classify_topic", 0.93
TR, TL = ADDED["tr"], ADDED["tl"]


def test_a_share_has_a_cluster_for_each_query_with_all_its_seeds_and_draws(tmp_path: Path) -> None:
    scores = {0: [1, 1, 0, 0, 0, 1], 1: [1, 0, 0, 0, 1, 1], 3: [1, 1, 0, 0, 1, 1]}
    rows = [row("forward_upper", seed, TR, own, repeats=2) for seed, own in scores.items()]
    runs = runs_of(tmp_path, rows)
    found = runs.share("forward_upper", TR, "answer_match")
    assert found == accuracy_interval([5, 0, 5], [6, 6, 6])
    assert found.estimate == pytest.approx(10 / 18)
    assert runs.share("forward_upper", TR, "answer_match", {1}) == accuracy_interval(
        [1, 0, 2], [2, 2, 2]
    )


def test_the_ratio_is_of_its_own_scores(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, [row(TASK, 0, TR, [0, 0, 1], in_set=[1, 1, 1])])
    assert runs.share(TASK, TR, "tr_ratio").estimate == 1
    assert mean_share(runs, {TASK: {0}}, TR, ratio=True).estimate == 1
    assert mean_share(runs, {TASK: {0}}, TR).estimate == pytest.approx(1 / 3)


def test_a_contrast_is_paired_by_query_and_averaged_over_its_seeds(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        [
            row(TASK, 0, ZERO_SHOT, [0, 0, 1, 0]),
            row(TASK, 0, TR, [1, 0, 1, 0]),
            row(TASK, 1, TR, [1, 1, 0, 0]),
            row(TASK, 2, TR, [1, 1, 1, 1]),
        ],
    )
    found = contrast(runs, {TASK: {0, 1}}, {TR: Fraction(1), ZERO_SHOT: Fraction(-1, 2)})
    paired = [(1, 1), (0.5, 1), (0, 1), (0, 1)]
    assert found == task_mean_interval([paired], (-0.5, 1))


def test_a_seed_is_shared_where_all_arms_have_it_and_zero_shot_has_them_all(tmp_path: Path) -> None:
    cells = [(0, ZERO_SHOT), (0, TR), (1, TR), (1, TL), (2, TL)]
    runs = runs_of(tmp_path, [row(TASK, seed, arm, [0, 1]) for seed, arm in cells])
    assert runs.shared_seeds(TASK, [TR, TL, ZERO_SHOT]) == {1}
    assert runs.shared_seeds(TASK, [TR, ZERO_SHOT]) == {0, 1}
    assert runs.shared_seeds(TASK, [TR, ICL]) == frozenset()
    assert runs.shared_seeds("classify_question", [ZERO_SHOT, TR]) == frozenset()
    assert runs.covers(TASK, ZERO_SHOT, {1, 2})
    assert not runs.covers(TASK, TL, {0, 1})


def test_tasks_are_ordered_sets_first_then_by_family(tmp_path: Path) -> None:
    names = ["generate_negative", "forward_b", "classify_topic_shuffled_inputs", "forward_a"]
    names += ["classify_question", "classify_sentiment"]
    runs = runs_of(tmp_path, [row(task, 0, ICL, [0, 1]) for task in names])
    assert runs.tasks == (
        "classify_sentiment", "classify_question", "classify_topic_shuffled_inputs", "forward_a",
        "forward_b", "generate_negative",
    )  # fmt: skip


# Accuracy by seed: even, uneven, and near either end.
BY_SEED = {
    "even": (0.6, 0.6, 0.6, 0.6, 0.6),
    "uneven": (0.95, 0.3, 0.7, 0.5, 1.0),
    "all or nothing": (1.0, 0.0, 1.0, 1.0, 0.0),
    "nearly never": (0.0, 0.02, 0.05, 0.0, 0.03),
    "nearly always": (0.97, 1.0, 0.95, 1.0, 0.98),
    "two seeds": (0.9, 0.4),
}


def scores_of_queries(
    rng: np.random.Generator, queries: int, by_seed: tuple[float, ...], difficulty: float
) -> np.ndarray:
    """0 or 1 [queries, seeds]; `difficulty` is what a query's answers have in common, 0 to 1."""
    own = rng.standard_normal((queries, len(by_seed)))
    shared = rng.standard_normal((queries, 1))
    hidden = math.sqrt(difficulty) * shared + math.sqrt(1 - difficulty) * own
    return (hidden < stats.norm.ppf(by_seed)).astype(int)


@pytest.mark.parametrize("queries", [10, 50])
@pytest.mark.parametrize("difficulty", [0, 0.5, 1])
@pytest.mark.parametrize("case", BY_SEED)
def test_accuracy_over_fixed_seeds_is_covered(case: str, difficulty: float, queries: int) -> None:
    rng, by_seed = np.random.default_rng(0), BY_SEED[case]
    truth, hits = float(np.mean(by_seed)), []
    for _ in range(500):
        right = scores_of_queries(rng, queries, by_seed, difficulty).sum(axis=1)
        found = accuracy_interval(right.tolist(), [len(by_seed)] * queries)
        hits.append(found.low <= truth <= found.high)
    assert np.mean(hits) >= LEAST


@pytest.mark.parametrize("tasks", [1, 4])
@pytest.mark.parametrize("difficulty", [0, 1])
@pytest.mark.parametrize("case", BY_SEED)
def test_a_contrast_over_fixed_seeds_is_covered(case: str, difficulty: float, tasks: int) -> None:
    """TR less the middle between in-context learning and zero-shot, which is right rarely."""
    rng, by_seed = np.random.default_rng(0), BY_SEED[case]
    icl, zero = (0.98,) * len(by_seed), (0.02,)
    truth, hits = float(np.mean(by_seed)) - 0.5, []
    for _ in range(300):
        paired = []
        for _ in range(tasks):
            tr, most, least = (
                scores_of_queries(rng, 50, own, difficulty).mean(axis=1)
                for own in (by_seed, icl, zero)
            )
            paired.append([(value, 1) for value in (tr - most / 2 - least / 2).tolist()])
        found = task_mean_interval(paired, (-1, 1))
        hits.append(found.low <= truth <= found.high)
    assert np.mean(hits) >= LEAST


def at(kind: str, fraction: float) -> Arm:
    return Arm(added=kind, fraction=fraction)


def test_a_curve_is_over_the_seeds_that_all_its_points_share(tmp_path: Path) -> None:
    rows = [row(TASK, 0, at("tr", share), [1, 1, 1, 0]) for share in (0.2, 0.01)]
    rows += grid([TASK], [0, 1, 2], [ZERO_SHOT, ICL, TR], lambda arm: [int(arm == TR)] * 3 + [0])
    (curve,) = curves(runs_of(tmp_path, rows))
    assert curve.task == TASK
    assert curve.seeds == {0}
    assert list(curve.points) == ["tr"]
    assert {share: heads for share, (heads, _) in curve.points["tr"].items()} == {
        0.01: 1, 0.03: 3, 0.2: 20,
    }  # fmt: skip
    assert list(curve.points["tr"]) == [0.01, 0.03, 0.2]
    assert curve.points["tr"][0.2][1] == accuracy_interval([1, 1, 1, 0], [1] * 4)
    assert {arm: value.estimate for arm, value in curve.bounds.items()} == {ZERO_SHOT: 0, ICL: 0}


def test_a_curve_without_a_seed_in_common_has_no_points(tmp_path: Path) -> None:
    rows = [row(TASK, 1, at("tr", 0.1), [1, 0]), row(TASK, 0, TR, [1, 0])]
    (curve,) = curves(runs_of(tmp_path, rows))
    assert not curve.seeds
    assert curve.points == {"tr": {}}


def test_there_is_no_curve_of_one_share(tmp_path: Path) -> None:
    assert curves(runs_of(tmp_path, grid([TASK], [0], ADDED.values(), lambda _: [1, 0]))) == []
