"""Proposition 3: the exact risk, its least points and the counterexamples."""

import numpy as np
import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.check import Preset
from harness_ext.theory.linear_attention.model import squared_errors
from harness_ext.theory.linear_attention.prompts import draw_pairs, tokens
from harness_ext.theory.linear_attention.structure import Structure
from harness_ext.theory.weight_orthogonality import (
    WeightOrthogonality,
    compare_variants,
    exact_risk,
    least_risk,
    search,
)
from harness_ext.theory.weight_orthogonality.risk import model_numbers, printed_distance


def test_the_exact_risk_is_that_of_the_model_on_sampled_prompts():
    n, d, a, b, kappa = 3, 2, 0.7, 0.4, -0.1
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(n + 1, n + 1, generator=generator, dtype=torch.float64)
    pairs = draw_pairs(generator, n, d, 40_000)
    weights = Structure("triplet", 2).weights(model_numbers(a, b, kappa, n), n, d, mixing)
    # The risk is per prompt's coordinate, and W's rows are alike.
    losses = squared_errors(weights, tokens(pairs, "triplet"), pairs)
    error = losses.std() / len(losses) ** 0.5
    exact = exact_risk(*torch.tensor([a, b, kappa], dtype=torch.float64), mixing, d)
    assert abs(losses.mean() - exact) < 4 * error
    assert error < 0.1 * exact


def test_one_descent_at_the_best_step_has_the_known_least_risk():
    eye = torch.zeros(4, 4, dtype=torch.float64)
    a, b, kappa = torch.tensor([1.0, 0.0, -1 / 8], dtype=torch.float64)
    assert exact_risk(a, b, kappa, eye, 4).item() == pytest.approx(least_risk(3, 4))
    assert least_risk(10, 4) == pytest.approx(4 / 3)


def test_counterexamples_have_the_least_risk_and_the_same_answers():
    figures = compare_variants(n=4, d=3, seed=1, prompts=20)
    for name in ("unread", "m in the null space"):
        assert figures[name]["printed"] > 0.2
        assert figures[name]["excess"] == pytest.approx(0, abs=1e-12)
        assert figures[name]["answers"] < 1e-12
    assert figures["as printed"]["printed"] < 1e-12
    for name in ("skewed", "query read"):
        assert figures[name]["excess"] > 1e-3 and figures[name]["answers"] > 0.01


def test_a_search_that_reads_arrows_makes_rows_orthogonal_and_leaves_the_query_row_alone():
    found = search(3, 4, 0, "arrows only")
    assert found["excess"] < 1e-9 and found["share"] == pytest.approx(1)
    assert found["rows"] < 1e-3 and found["query"] < 1e-3
    assert found["start"] > 0.1


def test_the_distance_is_zero_for_the_printed_form_and_counts_the_query_row():
    printed = torch.diag(torch.tensor([2.0, 2.0, 0.0]))
    assert printed_distance(printed) == 0
    assert printed_distance(torch.eye(3)) == pytest.approx(1 / np.sqrt(3))


def test_one_demonstration_is_refused():
    with pytest.raises(UsageError, match="at least 2"):
        search(1, 4, 0, "free")


def test_the_check_ends_as_recorded():
    check = WeightOrthogonality()
    cells = check.cells(Preset("quick", 2))
    findings = check.judge([(cell, check.measure(cell)) for cell in cells])
    assert [f.verdict for f in findings] == [c.expected for c in check.claims]
