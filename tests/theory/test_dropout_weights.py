"""Proposition 5: coefficients of the dropout risk, the best weights, what arrows are worth."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell
from harness_ext.theory.dropout_weights import (
    DropoutWeights,
    best_weights,
    degenerate_from,
    derived,
    enumerated,
    identity_stable_from,
    least_one_descent_risk,
    printed,
    quartic,
    simulated,
)
from harness_ext.theory.dropout_weights.check import _judge_causal, judge_coefficients
from harness_ext.theory.dropout_weights.optimum import identity, rises
from harness_ext.theory.dropout_weights.quartic import gradient
from harness_ext.theory.dropout_weights.tokens import draw_masks, dropped_forward
from harness_ext.theory.dropout_weights.value import losses, one_descent_risk
from harness_ext.theory.linear_attention.model import Weights, forward
from harness_ext.theory.linear_attention.prompts import draw_pairs
from harness_ext.theory.linear_attention.structure import Structure


def _weights(n: int, seed: int = 0):
    weights = np.random.default_rng(seed).normal(size=(n, n + 1))
    return weights / np.linalg.norm(weights)


@pytest.mark.parametrize(("n", "p", "d"), [(1, 0.3, 4), (2, 0.5, 1), (3, 0.8, 4), (3, 0.6, 2)])
def test_derived_coefficients_are_the_average_over_all_masks(n, p, d):
    weights = _weights(n)
    assert quartic(weights, derived(p, d)) == pytest.approx(enumerated(weights, p, d), rel=1e-12)


def test_printed_coefficients_are_not():
    weights = _weights(3)
    off = quartic(weights, printed(0.5, 4)) / enumerated(weights, 0.5, 4) - 1
    assert abs(off) > 0.05


def test_enumeration_agrees_with_masks_one_by_one():
    n, p, d, weights = 2, 0.4, 3, _weights(2)
    total = 0.0
    for bits in itertools.product((0, 1), repeat=7):
        share = p ** sum(bits) * (1 - p) ** (7 - sum(bits))
        ups, xis, kappas = (np.diag(bits[a:b]) for a, b in ((0, 2), (2, 4), (4, 7)))
        matrix = ups @ weights @ kappas @ weights.T @ xis
        norm, square = (matrix**2).sum(), np.trace(matrix @ matrix)
        total += share * (d * norm + square + np.trace(matrix) ** 2)
    assert enumerated(weights, p, d) == pytest.approx(total)
    assert weights.shape[0] == n


def test_the_model_run_token_by_token_agrees_with_derived_coefficients_alone():
    weights = np.zeros((2, 3))
    weights[:, -1] = np.sqrt(0.5)
    mean, error = simulated(weights, 0.5, 4, 60_000, seed=0)
    assert abs(mean - quartic(weights, derived(0.5, 4))) < 4 * error
    assert abs(mean - quartic(weights, printed(0.5, 4))) > 4 * error


def test_the_two_slips_explain_the_difference():
    """The printed form has d with tr N² for ‖N‖², and p³ − p⁴ on rows for columns."""
    p, d = 0.37, 5
    elements = p**3 - p**4 - p**5 + p**6
    # Per trace: (entries, rows, columns, gram), rows and columns of ‖N‖² exchanged.
    norm = np.array([0, p**3 - p**4, 0, p**4])
    square = np.array([elements, p**4 - p**6, p**5 - p**6, p**6])
    trace = np.array([elements, p**4 - p**6, p**5 - p**6, 0])
    c = printed(p, d)
    expected = norm + d * square + trace
    assert np.allclose([c.entries, c.rows, c.columns, c.gram], expected)


def test_the_gradient_agrees_with_finite_differences():
    c, weights = derived(0.6, 4), _weights(3)

    def value(entries):
        return quartic(entries.reshape(3, 4), c)

    def slope(entries):
        return gradient(entries.reshape(3, 4), c).ravel()

    assert check_grad(value, slope, weights.ravel()) < 1e-6


def test_the_causal_optimum_rises_at_a_moderate_rate_and_is_the_identity_at_a_high_one():
    _, moderate = best_weights(5, derived(0.3, 4), True, 6, 0)
    _, high = best_weights(5, derived(0.9, 4), True, 6, 0)
    assert rises(moderate[:, -1])
    assert not rises(high[:, -1])
    assert np.allclose(np.abs(high), identity(5), atol=1e-6)
    assert np.all(moderate[np.tril_indices(5, 0, 6)] == 0)


def test_the_identity_turns_stable_where_a_small_departure_starts_to_cost():
    rate = identity_stable_from(4, derived)
    departed = identity(4)
    departed[0, 3] = 0.02
    departed /= np.linalg.norm(departed)
    for p, sign in ((rate - 0.03, -1), (rate + 0.03, 1)):
        c = derived(p, 4)
        assert np.sign(quartic(departed, c) - quartic(identity(4), c)) == sign
    assert degenerate_from(4, 4, derived, 4, 0, tolerance=0.02) > rate


@pytest.mark.parametrize(
    ("above", "free", "verdict"),
    [
        (False, False, "does not hold"),
        (True, False, "holds"),
        (True, True, "inconclusive"),  # the measure finds a rise even without the causal mask
    ],
)
def test_a_rise_everywhere_needs_a_control_without_one(above, free, verdict):
    def cell(rises, **settings):
        figures = {"rises": rises, "identity": not rises}
        return Cell("dropout-weights", {"n": 5, **settings}), {"derived": figures}

    optima = [
        cell(True, p=0.3, causal=True),
        cell(above, p=0.9, causal=True),
        cell(free, p=0.5, causal=False),
    ]
    turns = [(Cell("dropout-weights", {"n": 5}), {"derived": {"rate": 0.41}})]
    found, _ = _judge_causal(optima, turns)
    assert found.verdict == verdict


def test_the_exact_dropout_risk_is_that_of_the_model_on_sampled_prompts():
    n, d, p, kappa = 2, 2, 0.6, -0.2
    structure = Structure("triplet", 2)
    numbers = torch.zeros(2, structure.per_layer, dtype=torch.float64)
    mixes = torch.tensor([0.8, 0.1, 0.3, -0.2], dtype=torch.float64)
    numbers[0, :2] = 1
    numbers[0, 3:7] = mixes[[1, 2, 0, 3]]  # (x, x), (x, y), (y, x), (y, y) as (from, to)
    numbers[0, 8] = 1
    numbers[0, 10:12] = 1
    numbers[1, 1:3] = torch.tensor([1.0, kappa * n])
    weights = torch.from_numpy(_weights(n))
    mixing = torch.zeros(2, n + 1, n + 1, dtype=torch.float64)
    mixing[0, :n] = weights
    model = structure.weights(numbers.flatten(), n, d, mixing)
    generator = torch.Generator().manual_seed(0)
    pairs = draw_pairs(generator, n, d, 50_000)
    kept = draw_masks(generator, p, 2, 50_000, 3 * (n + 1))
    found = losses(model, "triplet", pairs, kept)
    # The exact risk is at the best answer scale t; losses are quadratic in it.
    base = d
    zero = model.map({"lower": model.lower * torch.tensor([1.0, 0.0]).view(2, 1, 1)})
    assert losses(zero, "triplet", pairs, kept).mean().item() == pytest.approx(base, rel=0.03)
    double = model.map({"lower": model.lower * torch.tensor([1.0, 2.0]).view(2, 1, 1)})
    one, two = found.mean().item() - base, losses(double, "triplet", pairs, kept).mean() - base
    square, linear = (two.item() - 2 * one) / 2, (4 * one - two.item()) / 2
    best = base - linear**2 / (4 * square)
    assert one_descent_risk(mixes, weights, n, d, p).item() == pytest.approx(best, rel=0.03)


def test_arrows_pay_with_dropout_and_not_without():
    gains = {}
    for p in (0.7, 1.0):
        pairwise, _ = least_one_descent_risk(3, 4, p, arrows=False)
        triplet, _ = least_one_descent_risk(3, 4, p, arrows=True)
        gains[p] = pairwise - triplet
    assert gains[0.7] > 0.01
    assert gains[1.0] == pytest.approx(0, abs=1e-9)


def test_no_dropout_leaves_the_model_as_it_is():
    generator = torch.Generator().manual_seed(0)

    def gaussian(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = Weights(*(gaussian(2, 2, 2) for _ in range(3)), gaussian(2, 6, 6))
    state = gaussian(5, 4, 6)
    kept = torch.ones(2, 5, 6).bool()
    kept[..., -1] = False  # the model hides the last token anyway
    torch.testing.assert_close(dropped_forward(weights, state, 3, kept), forward(weights, state, 3))
    kept[0, 0, 0] = False
    changed = dropped_forward(weights, state, 3, kept) - forward(weights, state, 3)
    assert changed[0].abs().max() > 0.01 and changed[1:].abs().max() < 1e-9


def test_settings_without_meaning_are_refused():
    with pytest.raises(UsageError, match="keep rate"):
        derived(0.0, 4)
    with pytest.raises(UsageError, match="at least 2"):
        best_weights(1, derived(0.5, 4), True, 1, 0)
    with pytest.raises(UsageError, match="masks"):
        enumerated(_weights(7), 0.5, 4)


def test_judging_tells_derived_from_printed_and_demands_its_controls():
    check = DropoutWeights()
    settings = dict(part="agreement", n=2, d=4, p=0.5, arrows="one", prompts=20_000, seed=0)
    cell = Cell(check.name, settings)
    figures = check.measure(cell)
    printed_, derived_ = judge_coefficients([(cell, figures)])
    assert (printed_.verdict, derived_.verdict) == ("does not hold", "holds")
    both_right = figures | {"printed": figures["derived"]}
    assert {f.verdict for f in judge_coefficients([(cell, both_right)])} == {"inconclusive"}
