"""The weights M that cost least under token dropout, and where their causal form degenerates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from harness_ext.errors import UsageError
from harness_ext.theory.dropout_weights.quartic import Array, Coefficients, gradient, quartic

STEP = 1e-3
"""Least rise, as a share of the largest weight, that counts: far above what the search leaves
undecided (the values of its starts agree to 1e-9, where the form is flat the weights to 1e-5)."""


def allowed(n: int, causal: bool) -> Array:
    """1 where an arrow may see a demonstration, shape (n, n + 1): if causal, only earlier ones."""
    return np.triu(np.ones((n, n + 1)), 1) if causal else np.ones((n, n + 1))


def identity(n: int) -> Array:
    """Each arrow holds the demonstration just before it; ‖M‖ = 1, shape (n, n + 1)."""
    return np.eye(n, n + 1, 1) / np.sqrt(n)


def best_weights(
    n: int, c: Coefficients, causal: bool, starts: int, seed: int
) -> tuple[float, Array]:
    """The least value of the form over ‖M‖ = 1 and its M, shape (n, n + 1), signs arbitrary.

    Best of quasi-Newton searches from Gaussian starts, from equal weights and, being a critical
    point that a search may miss, the identity. Raises UsageError for n below 2: with one
    demonstration there is nothing to weigh.
    """
    if n < 2:
        raise UsageError(f"n is {n}; weighing demonstrations needs at least 2")
    free = allowed(n, causal) > 0
    generator = np.random.default_rng(seed)
    begin = [free[free].astype(float), *generator.normal(size=(starts, int(free.sum())))]
    values = [(quartic(identity(n), c), identity(n))]
    for start in begin:
        found = minimize(
            _on_sphere(free, c),
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-11},
        )
        weights = _fill(free, found.x)
        values.append((found.fun, weights / np.linalg.norm(weights)))
    value, weights = min(values, key=lambda found: found[0])
    return float(value), weights


def rises(column: Array) -> bool:
    """Whether the weights, in absolute value, rise strictly from the first demonstration on."""
    size = np.abs(column)
    return bool((np.diff(size) > STEP * size.max()).all())


def identity_stable_from(d: int, coefficients: Callable[[float, int], Coefficients]) -> float:
    """The keep rate above which the identity is a local minimum of the causal form, for any n.

    Weight ε² moved from all entries to an allowed entry off the identity changes the form by
    2 s² ε² (G's coefficient − E's), s² = 1/n: the rows', columns' and G's diagonal shares cancel.
    """

    def surplus(p: float) -> float:
        c = coefficients(p, d)
        return (c.gram - c.entries) / p**3

    return float(brentq(surplus, 1e-3, 1 - 1e-9))


def degenerate_from(
    n: int,
    d: int,
    coefficients: Callable[[float, int], Coefficients],
    starts: int,
    seed: int,
    tolerance: float = 1e-3,
) -> float:
    """The keep rate from which the identity is the best causal M, by bisection."""

    def is_identity(p: float) -> bool:
        value, _ = best_weights(n, coefficients(p, d), True, starts, seed)
        return quartic(identity(n), coefficients(p, d)) - value <= 1e-9 * value

    low, high = identity_stable_from(d, coefficients), 1.0
    while high - low > tolerance:
        middle = (low + high) / 2
        low, high = (low, middle) if is_identity(middle) else (middle, high)
    return (low + high) / 2


def _on_sphere(free: NDArray[np.bool_], c: Coefficients) -> Callable[[Array], tuple[float, Array]]:
    def value(entries: Array) -> tuple[float, Array]:
        norm = np.linalg.norm(entries)
        weights = _fill(free, entries / norm)
        level = quartic(weights, c)
        # The form has degree 4, so its radial derivative is 4 times its value.
        return level, (gradient(weights, c) - 4 * level * weights)[free] / norm

    return value


def _fill(free: NDArray[np.bool_], entries: Array) -> Array:
    weights = np.zeros(free.shape)
    weights[free] = entries
    return weights
