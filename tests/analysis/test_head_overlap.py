"""Overlaps of attention heads, against numbers worked out by hand."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from harness_ext.analysis.head_overlap import (
    Agreement,
    agreement,
    jaccard_by_chance,
    mean_agreement,
    mean_layer,
    ranks,
)

ONE = torch.tensor([[4.0, 3.0], [2.0, 1.0]])
OTHER = torch.tensor([[4.0, 2.0], [3.0, 1.0]])  # the middle two in the other order


def test_two_scores_agree_by_their_top_heads_and_by_their_order() -> None:
    found = agreement(ONE, OTHER, 0.5)
    assert found.jaccard == pytest.approx(1 / 3)  # one of three heads is in both halves
    assert found.kendall == pytest.approx((5 - 1) / 6)  # of six pairs one is in the other order
    assert found.spearman == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert found.by_chance == pytest.approx(1 / 6 * 0 + 4 / 6 * 1 / 3 + 1 / 6 * 1)


def test_a_score_agrees_with_itself_wholly_and_with_its_negative_not_at_all() -> None:
    same, opposite = agreement(ONE, 7 * ONE + 1, 0.25), agreement(ONE, -ONE, 0.25)
    assert (same.jaccard, same.kendall, same.spearman) == (1, pytest.approx(1), pytest.approx(1))
    assert opposite.jaccard == 0
    assert (opposite.kendall, opposite.spearman) == (pytest.approx(-1), pytest.approx(-1))


def test_ties_count_as_kendalls_tau_b_has_them() -> None:
    found = agreement(torch.tensor([[1.0, 1.0, 2.0]]), torch.tensor([[1.0, 2.0, 3.0]]), 0.3)
    assert found.kendall == pytest.approx(2 / (2 * 3) ** 0.5)


def test_a_score_that_is_the_same_for_all_heads_has_no_correlation() -> None:
    found = agreement(ONE, torch.ones(2, 2), 0.5)
    assert (found.kendall, found.spearman) == (None, None)


@pytest.mark.parametrize(("chosen", "heads"), [(1, 6), (2, 5), (3, 6), (4, 4)])
def test_the_overlap_by_chance_is_the_mean_over_all_draws(chosen: int, heads: int) -> None:
    fixed = set(range(chosen))
    draws = [set(own) for own in combinations(range(heads), chosen)]
    expected = sum(len(fixed & own) / len(fixed | own) for own in draws) / len(draws)
    assert jaccard_by_chance(chosen, heads) == pytest.approx(expected)


def test_means_leave_out_correlations_that_do_not_exist() -> None:
    found = mean_agreement([Agreement(0.2, 0.1, 0.5, None), Agreement(0.4, 0.1, None, None)])
    assert found == Agreement(pytest.approx(0.3), pytest.approx(0.1), 0.5, None)


def test_ranks_count_from_the_first_to_the_last_of_all_heads() -> None:
    scores = torch.arange(11.0, 0, -1).reshape(1, 11)  # head n stands at n tenths
    found = ranks(scores, [(0, 1), (0, 2), (0, 10)], 0.2)
    assert found.median == pytest.approx(0.2)
    assert found.within == pytest.approx(1 / 3)  # the first two are heads 0 and 1
    assert found.limit == 0.2


def test_the_mean_layer_counts_every_head() -> None:
    assert mean_layer([(0, 3), (0, 1), (3, 0)]) == 1
