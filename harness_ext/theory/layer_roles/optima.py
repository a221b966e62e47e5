"""Optima whose layers are looked at: found by search, so that nothing decides their form before."""

from __future__ import annotations

import numpy as np
import torch

from harness_ext.theory.linear_attention.model import Weights
from harness_ext.theory.linear_attention.optimum import descend, least_risk
from harness_ext.theory.linear_attention.prompts import Format
from harness_ext.theory.linear_attention.quadrature import Sample
from harness_ext.theory.linear_attention.risks import structured_risk
from harness_ext.theory.linear_attention.structure import Structure, embedded

SPREAD = 0.3
"""Standard deviation of the noise on the starts, of the order of the numbers themselves."""


def pair_optimum(layout: Format, layers: int, n: int, d: int, seed: int) -> tuple[Weights, float]:
    """Pairwise or triplet weights of least risk, and that risk, from one random start."""
    structure = Structure(layout, layers)
    if layers > 2:
        found = least_risk(layout, layers, n, d, [seed])
        return found.weights(n, d), found.risk
    sample = Sample.draw(seed, n, d, 128, 14)
    start = embedded(least_risk("single", 1, n, d, range(3)).numbers, layout).numpy()
    start = start + SPREAD * np.random.default_rng(seed).standard_normal(structure.size)
    numbers = descend(lambda v: structured_risk(v, structure, sample), start, 500)
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
