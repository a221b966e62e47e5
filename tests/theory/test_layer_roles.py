"""What the layers of optima do: shares of their updates, condition numbers, judgements."""

import pytest
import torch

from harness_ext.theory.check import Cell
from harness_ext.theory.layer_roles import (
    LayerRoles,
    condition_numbers,
    explained,
    pair_optimum,
    roles,
)
from harness_ext.theory.layer_roles.optima import with_shuffled_positions
from harness_ext.theory.linear_attention.optimum import least_risk, single_optimum
from harness_ext.theory.linear_attention.structure import Structure, embedded


def test_a_share_is_that_of_the_projection():
    generator = torch.Generator().manual_seed(0)
    first, second, noise = torch.randn(3, 2000, 2, generator=generator, dtype=torch.float64)
    assert explained(3 * first - second, [first, second, first]) == pytest.approx(1)
    assert explained(noise, [first, second]) < 0.01
    assert explained(noise, []) == 0
    # Each prompt counts alike, however large: half of these are explained.
    target = torch.cat([first[:1000], 1000 * noise[1000:]])
    part = torch.cat([first[:1000], torch.zeros_like(noise[1000:])])
    assert explained(target, [part]) == pytest.approx(0.5, abs=0.2)


def test_a_layer_that_only_mixes_and_one_that_only_descends_are_told_apart():
    numbers = embedded(least_risk("single", 1, 5, 3, range(3)).numbers, "pairwise")
    weights = Structure("pairwise", 2).weights(numbers, 5, 3)
    first, second = roles(weights, "pairwise", 5, 3, prompts=30, seed=0)
    assert first.mixing == pytest.approx(1) and first.descent < 0.5
    assert second.descent == pytest.approx(1) and second.mixing < 0.5
    shuffled = roles(with_shuffled_positions(weights, 0), "pairwise", 5, 3, 30, 0)
    assert shuffled[0].mixing < 0.9


def test_condition_numbers_leave_out_the_hidden_token():
    state = torch.zeros(1, 4, 3, dtype=torch.float64)
    state[0, :2] = torch.tensor([[3.0, 0.0, 100.0], [0.0, 1.0, 0.0]])
    assert condition_numbers(state, 2).item() == pytest.approx(9)


def test_plain_descent_leaves_the_condition_number_alone_and_has_a_higher_risk():
    plain = single_optimum(2, 6, 3, range(3), [False, True, True, True])
    ours = single_optimum(2, 6, 3, range(3))
    assert plain.risk > ours.risk
    before, after = (role.condition for role in roles(plain.weights(6, 3), "single", 6, 3, 50, 0))
    assert after == pytest.approx(before)
    before, after = (role.condition for role in roles(ours.weights(6, 3), "single", 6, 3, 50, 0))
    assert after < before


def test_a_search_from_a_random_start_reaches_the_least_risk_of_two_layers():
    _, risk = pair_optimum("pairwise", 2, 6, 3, 0)
    exact = least_risk("pairwise", 2, 6, 3, [0]).risk
    assert risk == pytest.approx(exact, rel=0.05)


def _figures(mixing, descent, condition):
    rows = zip(mixing, descent, condition, strict=True)
    return [dict(mixing=m, descent=d, both=1.0, condition=c) for m, d, c in rows]


def test_a_control_that_passes_makes_the_claim_inconclusive():
    check = LayerRoles()
    pair = Cell(check.name, dict(layout="pairwise", layers=2, n=5, d=3, prompts=1, seed=0))
    single = Cell(check.name, dict(layout="single", layers=2, n=5, d=3, prompts=1, seed=0))
    good, poor = _figures([1, 0], [0, 1], [5, 3]), _figures([0, 0], [0, 0], [5, 5])
    alone = {"risk": 1.0, "plain risk": 2.0, "roles": _figures([0, 0], [1, 1], [5, 3])}
    alone["plain"] = poor
    fine = {"risk": 1.0, "roles": good, "shuffled": poor, "untrained": poor, "cost": 1.0}
    findings = check.judge([(pair, fine), (single, alone)])
    assert {finding.verdict for finding in findings} == {"holds"}
    assert "factor 1 by definition" in findings[-1].control
    blind = fine | {"shuffled": good, "untrained": good}
    verdicts = [finding.verdict for finding in check.judge([(pair, blind), (single, alone)])]
    assert verdicts[0] == verdicts[2] == "inconclusive"
