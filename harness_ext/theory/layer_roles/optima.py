"""Optima whose layers are looked at: found by search, so that nothing decides their form before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from harness_ext.theory.linear_attention.model import Weights
from harness_ext.theory.linear_attention.optimum import least_risk
from harness_ext.theory.linear_attention.prompts import Format
from harness_ext.theory.linear_attention.quadrature import Sample, Spectrum
from harness_ext.theory.linear_attention.risks import single_risk, structured_risk
from harness_ext.theory.linear_attention.structure import Structure, embedded

SPREAD = 0.3
"""Standard deviation of the noise on the starts, of the order of the numbers themselves."""


def single_optimum(
    layers: int, n: int, d: int, starts: int, seed: int, plain: bool
) -> tuple[Weights, float]:
    """Single-token weights of least risk, and that risk, by search from several starts.

    `plain` holds A = 0: gradient descent that leaves x alone, where GD++ changes it too.
    """
    structure = Structure("single", layers)
    spectrum = Spectrum.exact(n, d, layers)
    free = torch.tensor([0.0 if plain else 1.0, 1, 1, 1], dtype=torch.float64).repeat(layers)
    generator = np.random.default_rng(seed)

    def loss(numbers: Tensor) -> Tensor:
        return single_risk(numbers * free, layers, spectrum)

    found = [
        _searched(loss, 0.3 * generator.standard_normal(structure.size)) for _ in range(starts)
    ]
    risk, numbers = min(found, key=lambda one: one[0])
    return structure.weights(numbers * free, n, d), risk


def pair_optimum(layout: Format, layers: int, n: int, d: int, seed: int) -> tuple[Weights, float]:
    """Pairwise or triplet weights of least risk, and that risk, from one random start."""
    structure = Structure(layout, layers)
    if layers > 2:
        found = least_risk(layout, layers, n, d, [seed])
        return structure.weights(found.numbers, n, d), found.risk
    sample = Sample.draw(seed, n, d, 128, 14)
    start = embedded(least_risk("single", 1, n, d, range(3)).numbers, layout).numpy()
    start = start + SPREAD * np.random.default_rng(seed).standard_normal(structure.size)
    _, numbers = _searched(lambda v: structured_risk(v, structure, sample), start)
    # On points that nothing was fitted to.
    fresh = Sample.draw(seed + 10**6, n, d, 1024, 14)
    return structure.weights(numbers, n, d), structured_risk(numbers, structure, fresh).item()


def with_shuffled_positions(weights: Weights, seed: int) -> Weights:
    """The same with D's tokens in a random order in every layer: the wrong structure."""
    order = torch.randperm(
        weights.position.shape[-1], generator=torch.Generator().manual_seed(seed)
    )
    return weights.map({"position": weights.position[..., order]})


def untrained(weights: Weights, seed: int) -> Weights:
    """Normal weights without any structure, of the size of these."""
    generator = torch.Generator().manual_seed(seed)
    return weights.map(
        {
            name: tensor.std() * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            for name, tensor in weights.tensors().items()
        }
    )


def _searched(loss: Callable[[Tensor], Tensor], start: NDArray[np.float64]) -> tuple[float, Tensor]:
    def value(numbers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        leaf = torch.from_numpy(numbers.copy()).requires_grad_()
        level = loss(leaf).log()  # risks span orders of magnitude
        (slope,) = torch.autograd.grad(level, leaf)
        return level.item(), slope.numpy()

    end = minimize(value, start, jac=True, method="BFGS", options={"maxiter": 500})
    return float(np.exp(end.fun)), torch.from_numpy(end.x)
