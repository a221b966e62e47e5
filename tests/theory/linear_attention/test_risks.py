from __future__ import annotations

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.model import squared_errors
from harness_ext.theory.linear_attention.prompts import draw_pairs, tokens
from harness_ext.theory.linear_attention.quadrature import Sample, Spectrum
from harness_ext.theory.linear_attention.risks import (
    single_risk,
    structured_losses,
    structured_risk,
)
from harness_ext.theory.linear_attention.structure import (
    Structure,
    embedded,
    inseparable_weights,
    orthonormal_mixing,
)

N, D = 6, 3


def numbers(structure: Structure, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.3 * torch.randn(structure.size, generator=generator, dtype=torch.float64)


def prompts(count: int, n: int = N):
    return draw_pairs(torch.Generator().manual_seed(1), n, D, count)


@pytest.mark.parametrize("layout", ["pairwise", "triplet"])
@pytest.mark.parametrize("layers", [2, 3, 4])
def test_small_matrices_compute_what_the_tokens_do(layout, layers) -> None:
    """W averages out as E‖W v‖² = d ‖v‖², so the prediction's w is read off with W = I."""
    structure = Structure(layout, layers)
    own = numbers(structure)
    pairs = prompts(5)
    pairs = type(pairs)(torch.eye(D, dtype=torch.float64).expand_as(pairs.maps), pairs.inputs)
    demonstrations = pairs.inputs[..., :-1]
    covariance = (demonstrations @ demonstrations.mT / N).permute(1, 2, 0)
    sample = Sample(covariance, pairs.inputs[..., -1].T, torch.full((5,), 0.2), N)
    simulated = D * squared_errors(structure.weights(own, N, D), tokens(pairs, layout), pairs)
    torch.testing.assert_close(structured_losses(own, structure, sample), simulated)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_exact_risk_of_single_tokens_is_the_simulated_one(layers) -> None:
    structure = Structure("single", layers)
    own = numbers(structure)
    pairs = prompts(60_000)
    errors = squared_errors(structure.weights(own, N, D), tokens(pairs, "single"), pairs)
    exact = float(single_risk(own, layers, Spectrum.exact(N, D, layers)))
    assert abs(float(errors.mean()) - exact) < 4 * float(errors.std()) / len(errors) ** 0.5


def test_the_risk_over_points_is_the_simulated_one() -> None:
    structure = Structure("triplet", 2)
    own = numbers(structure)
    pairs = prompts(60_000)
    errors = squared_errors(structure.weights(own, N, D), tokens(pairs, "triplet"), pairs)
    risk = float(structured_risk(own, structure, Sample.draw(0, N, D, 2048, 8)))
    assert abs(float(errors.mean()) - risk) < 5 * float(errors.std()) / len(errors) ** 0.5


@pytest.mark.parametrize("seed", [0, 1])
def test_any_orthonormal_mixing_has_the_risk_of_arrows_that_read_their_own_pair(seed) -> None:
    structure = Structure("triplet", 2)
    own = numbers(structure)
    mixing = orthonormal_mixing(torch.Generator().manual_seed(seed), N)
    pairs = prompts(50)
    state = tokens(pairs, "triplet")
    mixed = squared_errors(structure.weights(own, N, D, mixing), state, pairs)
    torch.testing.assert_close(mixed, squared_errors(structure.weights(own, N, D), state, pairs))


def test_points_integrate_known_means() -> None:
    sample = Sample.draw(0, N, D, 4096, 8)
    assert float(sample.weights.sum()) == pytest.approx(1)
    trace = sample.covariance.diagonal().sum(-1) @ sample.weights
    assert float(trace) == pytest.approx(D, rel=0.01)
    squared = (sample.covariance**2).sum((0, 1)) @ sample.weights
    assert float(squared) == pytest.approx(D * (N + D + 1) / N, rel=0.02)
    assert float(sample.query.square().sum(0) @ sample.weights) == pytest.approx(D, rel=0.01)


def test_gradients_are_finite_differences() -> None:
    structure = Structure("pairwise", 3)
    sample = Sample.draw(0, N, D, 4, 3)
    point = numbers(structure).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: structured_risk(v, structure, sample), (point,))


@pytest.mark.parametrize("layout", ["pairwise", "triplet"])
def test_an_embedded_single_token_model_predicts_the_same_with_one_layer_more(layout) -> None:
    single = Structure("single", 2)
    own = numbers(single)
    pairs = prompts(4)
    errors = squared_errors(single.weights(own, N, D), tokens(pairs, "single"), pairs)
    for weights, separable in (
        (Structure(layout, 3).weights(embedded(own, layout), N, D), True),
        (inseparable_weights(own, layout, N, D), False),
    ):
        same = squared_errors(weights, tokens(pairs, layout, separable), pairs)
        torch.testing.assert_close(same, errors)


def test_structured_weights_stay_on_their_support() -> None:
    structure = Structure("triplet", 2)
    mixing = torch.randn(N + 1, N + 1, dtype=torch.float64)
    weights = structure.weights(numbers(structure), N, D, mixing)
    assert not weights.position[:, ~structure.support(N)].any()
    assert weights.position[:, structure.support(N)].count_nonzero() > 0


def test_too_few_layers_or_demonstrations_are_refused() -> None:
    with pytest.raises(UsageError, match="pairwise prompts need at least 2 layer"):
        Structure("pairwise", 1)
    with pytest.raises(UsageError, match="n is 2, below d = 3"):
        Sample.draw(0, 2, 3, 4, 3)
