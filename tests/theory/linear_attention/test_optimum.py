from __future__ import annotations

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.optimum import (
    fresh_risk,
    least_risk,
    searched,
    two_layer_numbers,
)
from harness_ext.theory.linear_attention.quadrature import Spectrum
from harness_ext.theory.linear_attention.risks import single_risk
from harness_ext.theory.linear_attention.structure import Structure


@pytest.mark.parametrize("n", [5, 10, 30])
def test_one_layer_of_single_tokens_has_its_closed_form(n) -> None:
    d = 4
    assert least_risk("single", 1, n, d, [0, 1]).risk == pytest.approx(d * (d + 1) / (n + d + 1))


def test_two_layers_reach_the_known_risks() -> None:
    assert least_risk("pairwise", 2, 10, 4, [0]).risk == pytest.approx(0.7513, abs=1e-4)
    assert least_risk("triplet", 2, 10, 4, [0]).risk == pytest.approx(0.7513, abs=1e-4)
    without = least_risk("single", 2, 10, 4, range(3), positions=False).risk
    assert without == pytest.approx(0.2051, abs=1e-4)
    assert least_risk("single", 2, 10, 4, range(3)).risk < without


def test_a_single_token_optimum_is_stationary_in_its_exact_risk() -> None:
    best = least_risk("single", 2, 6, 3, range(3))
    point = best.numbers.clone().requires_grad_()
    risk = single_risk(point, 2, Spectrum.exact(6, 3, 2))
    (gradient,) = torch.autograd.grad(risk, point)
    assert float(gradient.abs().max()) < 1e-4


@pytest.mark.parametrize(
    ("layout", "arrow"), [("pairwise", 0.0), ("triplet", 0.0), ("triplet", 1.5)]
)
def test_the_solution_of_two_layers_has_the_risk_it_says(layout, arrow) -> None:
    numbers = two_layer_numbers(layout, 8, 3, arrow)
    risk, error = fresh_risk(numbers, Structure(layout, 2), 8, 3)
    assert abs(risk - least_risk(layout, 2, 8, 3, [0]).risk) < 5 * error


def test_searching_finds_the_solution_of_two_layers() -> None:
    found = searched(Structure("pairwise", 2), 8, 2, [0])
    exact = least_risk("pairwise", 2, 8, 2, [0]).risk
    assert found.risk == pytest.approx(exact, rel=0.02)


def test_what_cannot_be_minimised_is_refused() -> None:
    with pytest.raises(UsageError, match="n is 3, below d = 4"):
        least_risk("triplet", 2, 3, 4, [0])
    with pytest.raises(UsageError, match="at least one seed"):
        least_risk("single", 1, 5, 4, [])
    with pytest.raises(UsageError, match="pairwise prompts have no arrows"):
        two_layer_numbers("pairwise", 5, 4, 1.0)
