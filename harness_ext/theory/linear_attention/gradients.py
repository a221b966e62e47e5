"""Gradients of the risk with respect to every weight, as z-scores of fresh prompts."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import roots_genlaguerre
from scipy.stats import t as student
from torch import Tensor

from harness_ext.theory.linear_attention.model import Weights, squared_errors
from harness_ext.theory.linear_attention.prompts import Format, Pairs, draw_pairs, tokens

GROUPS = 128
"""Independent group means per z-score."""

DIRECTIONS = 8
"""Prompts in a group up to their scale: enough for a mean gradient to be close to normal."""

RADII = 6
"""Scales per direction, exact for risks of degree 11 in the squared radius: all two layers have."""


def gradient_scores(
    generator: torch.Generator, weights: Weights, layout: Format, n: int, d: int, separable: bool
) -> dict[str, Tensor]:
    """Mean gradient over its standard error, entry by entry, in the shapes of the weights.

    Each group of prompts has its own copy of the weights, so that one backward pass gives every
    group's gradient. Inputs are drawn as directions, and the scale of all inputs together is
    integrated: otherwise rare long prompts carry the mean, and z-scores are not normal. An entry
    whose gradient is 0 on every prompt scores 0.
    """
    copies = {
        name: tensor.detach().expand(GROUPS, *tensor.shape).clone().requires_grad_()
        for name, tensor in weights.tensors().items()
    }
    pairs, shares = _prompts(generator, n, d)
    errors = squared_errors(Weights(**copies), tokens(pairs, layout, separable), pairs)
    (errors * shares).sum().backward()
    return {name: _score(copy) for name, copy in copies.items()}


def _prompts(generator: torch.Generator, n: int, d: int) -> tuple[Pairs, Tensor]:
    """Groups of prompts, and each prompt's share in its group's mean, shape (prompts,)."""
    drawn = draw_pairs(generator, n, d, GROUPS, DIRECTIONS, 1)
    nodes, masses = roots_genlaguerre(RADII, d * (n + 1) / 2 - 1)
    radii = torch.from_numpy(np.sqrt(2 * nodes))[:, None, None]
    lengths = torch.linalg.matrix_norm(drawn.inputs, keepdim=True)
    maps = drawn.maps.expand(-1, -1, RADII, -1, -1)
    shares = torch.from_numpy(masses / masses.sum() / DIRECTIONS).repeat(DIRECTIONS)
    inputs = drawn.inputs / lengths * radii
    return Pairs(maps.flatten(1, 2), inputs.flatten(1, 2)), shares


def score_bound(entries: int, level: float) -> float:
    """What the largest of so many |z| exceeds with at most this chance if all means are 0.

    Bonferroni's bound on Student's t: it holds whatever the entries' correlations.
    """
    return float(student.isf(level / (2 * entries), GROUPS - 1))


def _score(copy: Tensor) -> Tensor:
    assert copy.grad is not None
    error = copy.grad.std(0) / GROUPS**0.5
    return torch.where(error > 0, copy.grad.mean(0) / error.clamp_min(1e-300), 0.0)
