from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from harness_ext.compare.board_cells import Answers
from harness_ext.compare.significance import differences, holm, sign_flip_test


def by_brute_force(changes: list[float]) -> float:
    """The share of sign vectors, of all clusters, with a mean as far from 0."""
    observed = abs(sum(changes))
    sums = [
        abs(sum(s * c for s, c in zip(signs, changes, strict=True)))
        for signs in product((-1, 1), repeat=len(changes))
    ]
    return float(np.mean([each >= observed - 1e-12 for each in sums]))


@pytest.mark.parametrize(
    "changes",
    [[1, 1, 1, 1], [1, -1, 0, 0.5], [0.5, 0.25, -0.25, 1, 0, 1], [1 / 3, 1 / 3, -2 / 3], [0, 0]],
)
def test_few_clusters_are_tested_exactly(changes: list[float]) -> None:
    assert sign_flip_test(changes) == pytest.approx(by_brute_force(changes))


@pytest.mark.parametrize("seed", range(4))
def test_whole_numbers_are_tested_exactly_however_many(seed: int) -> None:
    draw = np.random.default_rng(seed)
    changes = [float(each) for each in draw.integers(-4, 5, 15)]
    assert sign_flip_test(changes) == pytest.approx(by_brute_force(changes))


def test_a_collapse_has_a_p_value_as_small_as_it_is() -> None:
    assert sign_flip_test([-2.0] * 20) == pytest.approx(2 / 2**20)
    assert sign_flip_test([2.0] * 60) == pytest.approx(2 / 2**60)


def test_no_difference_anywhere_is_no_evidence() -> None:
    assert sign_flip_test([0.0] * 60) == 1


@pytest.mark.parametrize(("better", "worse"), [(9, 1), (12, 5), (30, 12), (150, 110)])
def test_single_answers_are_tested_as_by_mcnemar(better: int, worse: int) -> None:
    table = [[40, better], [worse, 30]]
    exact = mcnemar(table, exact=True).pvalue
    found = sign_flip_test([1.0] * better + [-1.0] * worse + [0.0] * 70)
    assert found == pytest.approx(exact, rel=0.1, abs=0.003)


def test_the_test_is_two_sided_and_repeats_itself() -> None:
    changes = list(np.random.default_rng(4).normal(0.2, 1, 40))
    assert sign_flip_test(changes) == sign_flip_test([-change for change in changes])
    assert sign_flip_test(changes) == pytest.approx(
        stats.permutation_test(
            (changes,),
            np.mean,
            permutation_type="samples",
            n_resamples=20_000,
            rng=np.random.default_rng(1),
        ).pvalue,
        abs=0.01,
    )


@pytest.mark.parametrize("clusters", [8, 40, 300])
def test_rows_that_do_not_differ_are_rarely_called_different(clusters: int) -> None:
    rng = np.random.default_rng(0)
    false = [sign_flip_test(rng.integers(-1, 2, clusters).tolist()) < 0.05 for _ in range(400)]
    assert np.mean(false) <= 0.075  # 400 trials at 0.05: 0.05 + 2.3 standard errors


@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_holms_correction_is_statsmodels(size: int) -> None:
    p_values = list(np.random.default_rng(size).uniform(0, 0.1, size))
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])


def test_nothing_to_correct_gives_nothing() -> None:
    assert holm([]) == []


def answers(means: dict[str, float], clusters: dict[str, str] | None = None) -> Answers:
    own = clusters or {document: document for document in means}
    return Answers(means, own, own, dict.fromkeys(means, 1))


def test_differences_are_over_the_common_documents_by_cluster() -> None:
    ours = answers({"a": 1, "b": 1, "c": 1, "d": 0}, {"a": "p", "b": "p", "c": "q", "d": "r"})
    theirs = answers({"a": 0, "b": 0.5, "c": 1, "e": 1}, {"a": "p", "b": "p", "c": "q", "e": "s"})
    assert differences([ours], [theirs]) == pytest.approx([1.5 / 3, 0])


def test_tasks_count_alike_and_share_clusters() -> None:
    ours = [answers({"a": 1, "b": 1}), answers({"c": 1}, {"c": "a"})]
    theirs = [answers({"a": 0, "b": 0}), answers({"c": 0}, {"c": "a"})]
    assert differences(ours, theirs) == pytest.approx([1 / 4 + 1 / 2, 1 / 4])


def test_rows_without_a_common_document_cannot_be_compared() -> None:
    assert differences([answers({"a": 1})], [answers({"b": 1})]) is None
