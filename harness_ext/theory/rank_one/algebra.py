"""Rank-one maps and one-vector answers for one pair of unit vectors: formulas and searches.

For unit vectors x and y at angle θ let A = [x y] and B = [y x]. A rank-one W can turn A into any
rank-one matrix, so by Eckart and Young the least ‖WA − B‖² is the smaller eigenvalue of
BᵀB = [[1, cos θ], [cos θ, 1]]:

    min ‖Wx − y‖² + ‖Wy − x‖² = 1 − |cos θ|,

0 for x = ±y alone. One vector [a; b] answers b (a·x) and b (a·y), along one line: the mean of the
cosines with y and x is at most ‖y ± x‖/2, that is √((1 + |cos θ|)/2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from harness_ext.errors import UsageError

Array = NDArray[np.float64]


def pair_at(angle: float, d: int, seed: int) -> tuple[Array, Array]:
    """Unit vectors x, y of shape (d,) at that angle in degrees. Raises UsageError for d below 2."""
    if d < 2:
        raise UsageError(f"d is {d}; two directions need at least 2 dimensions")
    basis, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, 2)))
    radians = np.deg2rad(angle)
    return basis[:, 0], basis @ np.array([np.cos(radians), np.sin(radians)])


def least_error_formula(angle: float) -> float:
    """1 − |cos θ|, θ in degrees."""
    return float(1 - abs(np.cos(np.deg2rad(angle))))


def cosine_bound(angle: float) -> float:
    """√((1 + |cos θ|)/2), θ in degrees."""
    return float(np.sqrt((1 + abs(np.cos(np.deg2rad(angle)))) / 2))


def least_error(x: Array, y: Array, rank: int, seed: int, starts: int = 5) -> float:
    """The least ‖Wx − y‖² + ‖Wy − x‖² over W = U Vᵀ of that rank, by quasi-Newton searches."""
    sources, targets = np.stack([x, y], 1), np.stack([y, x], 1)
    d = len(x)

    def loss(numbers: Array) -> tuple[float, Array]:
        left, right = numbers.reshape(2, d, rank)
        off = left @ (right.T @ sources) - targets
        slopes = 2 * off @ sources.T @ right, 2 * sources @ off.T @ left
        return float((off**2).sum()), np.stack(slopes).ravel()

    generator = np.random.default_rng(seed)
    found = [_minimised(loss, generator.normal(size=2 * d * rank)) for _ in range(starts)]
    return min(found)


def best_cosine(x: Array, y: Array, count: int, seed: int, starts: int = 12) -> float:
    """The greatest mean of cos(f(x), y) and cos(f(y), x) for f(q) = Σ_k b_k (a_k·q), by search."""
    d = len(x)
    queries, targets = torch.tensor(np.stack([x, y])), torch.tensor(np.stack([y, x]))

    def loss(numbers: Array) -> tuple[float, Array]:
        leaf = torch.from_numpy(numbers).requires_grad_()
        a, b = leaf.view(2, count, d)
        answers = queries @ a.mT @ b
        level = -torch.cosine_similarity(answers, targets, dim=-1, eps=1e-300).mean()
        (slope,) = torch.autograd.grad(level, leaf)
        return level.item(), slope.numpy()

    generator = np.random.default_rng(seed)
    found = [_minimised(loss, generator.normal(size=2 * d * count)) for _ in range(starts)]
    return -min(found)


def _minimised(loss: Any, start: Array) -> float:
    options = {"maxiter": 2000, "ftol": 0.0, "gtol": 1e-9}
    return float(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).fun)
