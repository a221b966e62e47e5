from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from scipy.stats import binomtest
from statsmodels.stats.multitest import multipletests

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.pairing import pair
from harness_ext.compare.regression import compare
from harness_ext.compare.report import Limits, Report
from harness_ext.compare.significance import mcnemar_test, sign_flip_test
from harness_ext.errors import UsageError
from tests.compare.made_up import evaluation, sample


def report(
    base: list[Evaluation], new: list[Evaluation], limits: Limits | None = None, **given: str
) -> Report:
    return compare(pair(base, new), limits or Limits(), **given)


def scores(right: int, count: int) -> list[int]:
    return [1] * right + [0] * (count - right)


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (5, 0), (9, 2), (3, 3), (1, 12)])
def test_mcnemar_is_the_exact_binomial_test(lost: int, gained: int) -> None:
    expected = binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert mcnemar_test(lost, gained) == pytest.approx(expected)
    assert sign_flip_test([-1.0] * lost + [1.0] * gained) == pytest.approx(expected, rel=0.05)


def test_single_queries_are_compared_by_mcnemar() -> None:
    (found,) = report(
        [evaluation(scores=scores(40, 50))], [evaluation(scores=scores(30, 50))]
    ).compared
    assert found.test == "exact McNemar"
    assert found.p_value == pytest.approx(binomtest(10, 10).pvalue)
    assert (found.base, found.new) == (0.8, 0.6)
    assert found.difference.estimate == pytest.approx(-0.2)
    assert found.difference.low < -0.2 < found.difference.high < 0
    assert (len(found.lost), len(found.gained)) == (10, 0)
    assert found.outcome == "worse"


def test_repeated_queries_are_compared_by_clusters() -> None:
    """Ten answers to each of four queries say no more than the four queries do."""

    def side(right: int) -> Evaluation:
        answers = [
            sample(f"{query}-{draw}", float(query >= right), cluster=str(query))
            for query in range(4)
            for draw in range(10)
        ]
        return evaluation(scores=answers)

    (found,) = report([side(0)], [side(4)]).compared
    assert found.test == "exact sign flips of clusters"
    assert found.clusters == 4
    assert found.p_value == pytest.approx(2 / 2**4)
    assert found.outcome == "no difference shown"


@pytest.mark.parametrize(
    ("differing", "score", "test"),
    [
        (14, 0.3, "exact sign flips of clusters"),
        (15, 0.3, "20,000 drawn sign flips of clusters"),
        (15, 1.0, "exact sign flips of clusters"),
        (200, 0.3, "20,000 drawn sign flips of clusters"),
        (201, 0.3, "sign flips of clusters in the normal limit"),
        (201, 1.0, "exact sign flips of clusters"),
    ],
)
def test_it_is_said_how_signs_were_flipped(differing: int, score: float, test: str) -> None:
    def side(score: float) -> Evaluation:
        answers = [
            sample(f"{query}-{draw}", score if query < differing else 0, cluster=str(query))
            for query in range(differing + 5)
            for draw in range(2)
        ]
        return evaluation(scores=answers)

    (found,) = report([side(score)], [side(0)]).compared
    assert found.test == test
    assert found.p_value == pytest.approx(2 * 0.5**differing, abs=1e-4)


def test_two_samples_of_one_noisy_model_are_rarely_told_apart() -> None:
    """Draws of a query agree more than draws of two, as in the word tasks."""
    draw = random.Random(0)
    rejected = 0
    for _ in range(400):
        sides = []
        ease = [draw.random() for _ in range(13)]
        for _ in range(2):
            own = [min(1, max(0, each + draw.gauss(0, 0.2))) for each in ease]
            sides.append(
                evaluation(
                    scores=[
                        sample(f"{query}-{n}", float(draw.random() < own[query]), str(query))
                        for query in range(13)
                        for n in range(4)
                    ]
                )
            )
        (found,) = report(*[[side] for side in sides]).compared
        rejected += found.outcome in ("worse", "better")
    assert rejected / 400 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)


def test_p_values_are_holms_over_all_tasks() -> None:
    tasks = {f"task{n}": n for n in range(2, 9)}
    base = [evaluation(task, scores(20, 20)) for task in tasks]
    new = [evaluation(task, scores(20 - lost, 20)) for task, lost in tasks.items()]
    found = report(base, new)
    expected = multipletests([each.p_value for each in found.compared], method="holm")[1]
    assert [each.adjusted for each in found.compared] == pytest.approx(list(expected))
    outcomes = {each.pair.task: each.outcome for each in found.compared}
    assert outcomes["task2"] == "no difference shown"
    assert outcomes["task8"] == "no difference shown"  # 2 · 2⁻⁸ · 7 tasks > 0.05
    assert found.needed == 9


def test_swapping_the_sides_swaps_worse_and_better() -> None:
    sides = [
        [evaluation("a", scores(40, 50)), evaluation("b", scores(20, 50))],
        [evaluation("a", scores(25, 50)), evaluation("b", scores(35, 50))],
    ]
    there, back = report(*sides), report(*sides[::-1])
    assert [each.outcome for each in there.compared] == ["worse", "better"]
    assert [each.outcome for each in back.compared] == ["better", "worse"]
    for one, other in zip(there.compared, back.compared, strict=True):
        assert one.difference.estimate == -other.difference.estimate
        assert one.p_value == other.p_value


def test_a_drop_within_the_tolerance_is_no_regression() -> None:
    base, new = [evaluation(scores=scores(40, 50))], [evaluation(scores=scores(30, 50))]
    for limits, outcome in (
        (Limits(max_drop=0.2), "within tolerance"),
        (Limits(max_drop=0.19), "worse"),
        (Limits(max_drop=0.19, per_task={"*": 0.1, "forward_*": 0.3}), "within tolerance"),
        (Limits(max_drop=0.3, per_task={"forward_upper": 0.1}), "worse"),
    ):
        found = report(base, new, limits)
        assert found.compared[0].outcome == outcome
        assert found.regressed == (outcome == "worse")


def test_a_tolerance_for_a_task_that_is_not_compared_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--per-task names backward_.* Compared: forward_upper"):
        report([evaluation()], [evaluation()], Limits(per_task={"backward_*": 0.1}))


def test_where_less_is_better_a_rise_is_worse() -> None:
    def side(value: float) -> list[Evaluation]:
        values = [value + n / 100 for n in range(20)]
        return [evaluation(scores=values, metric="perplexity", higher_is_better=False)]

    assert report(side(10), side(12)).compared[0].outcome == "worse"
    assert report(side(12), side(10)).compared[0].outcome == "better"


def test_only_documents_of_both_sides_count_and_the_rest_is_counted() -> None:
    base = evaluation(scores=[sample(str(n), 1) for n in range(10)])
    new = evaluation(scores=[sample(str(n), 1) for n in range(6, 18)])
    (found,) = report([base], [new]).compared
    assert (found.documents, found.unmatched) == (4, (6, 8))


def test_documents_without_a_score_are_left_out_and_counted() -> None:
    base = evaluation(scores=[sample(str(n), 1) for n in range(10)])
    without = [replace(sample(str(n), 1), scores={"other": 1.0}) for n in range(3)]
    new = replace(base, samples=(*without, *(base.samples or ())[3:]))
    (found,) = report([base], [new]).compared
    assert (found.documents, found.unmatched, found.unscored) == (7, (0, 0), 3)
    none = replace(base, samples=tuple(without))
    (found,) = report([base], [none]).comparisons
    assert found.why == "no document has answer_match of its own on both sides"
    assert (found.unmatched, found.unscored) == ((7, 0), 3)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (evaluation(scores=[sample("other", 1)]), "no document is on both sides"),
        (evaluation(has_samples=False), "no usable samples in NEW"),
        (evaluation(metric="acc"), "no score that both sides have"),
    ],
)
def test_what_cannot_be_compared_says_why(new: Evaluation, why: str) -> None:
    found = report([evaluation()], [new])
    assert why in found.comparisons[0].why
    assert found.compared == () and not found.regressed


def test_seeds_are_paired_and_clustered_by_query() -> None:
    base = [evaluation(seed=seed, scores=scores(20, 20)) for seed in (1, 2, 3)]
    new = [evaluation(seed=seed, scores=scores(12, 20)) for seed in (1, 2, 3)]
    (found,) = report(base, new).compared
    assert (found.documents, found.clusters) == (60, 20)
    assert found.p_value == pytest.approx(2 / 2**8)


def test_changed_answers_are_counted_right_or_wrong() -> None:
    def side(answers: str) -> list[Evaluation]:
        samples = [replace(sample(str(n), 0), answer=text) for n, text in enumerate(answers)]
        return [evaluation(scores=samples)]

    base, new = side("abcd"), side("axcy")
    assert report(base, new).changed == 0.5
    assert not report(base, new).regressed
    assert not report(base, new, Limits(max_changed=0.5)).regressed
    assert report(base, new, Limits(max_changed=0.4)).regressed


def test_documents_without_answers_have_none_that_change() -> None:
    def side(*answers: str | None) -> list[Evaluation]:
        samples = [replace(sample(str(n), 0), answer=text) for n, text in enumerate(answers)]
        return [evaluation(scores=samples)]

    found = report(side("a", "b", None), side("a", "c", None), Limits(max_changed=0.5))
    assert found.changed == 0.5 and found.answered == 2 and not found.regressed
    found = report(side(None), side(None), Limits(max_changed=0.5))
    assert found.changed is None and not found.regressed
    assert found.incomparable == "--max-changed has no answers to look at"


def test_answers_are_those_that_the_compared_metric_scores() -> None:
    def side(answer: str) -> list[Evaluation]:
        return [evaluation(scores=[replace(sample("d", 0), answers={"answer_match": answer})])]

    assert report(side("a"), side("b")).changed == 1.0


def test_a_least_drop_is_told_of_scores_of_0_or_1_alone() -> None:
    other = [evaluation(scores=[sample(str(n), 0.5) for n in range(20)])]
    assert report(other, other).least_drop(report(other, other).compared[0]) is None


def test_a_score_over_all_documents_alone_is_not_comparable() -> None:
    bare = [replace(sample(str(n), 1), scores={}) for n in range(5)]
    side = [replace(evaluation(scores=[1] * 5), samples=tuple(bare))]
    (found,) = report(side, side).comparisons
    assert found.why == "no document has answer_match of its own on both sides"
