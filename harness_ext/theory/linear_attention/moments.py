"""Exact moments of the real Wishart distribution, and a Gauss quadrature made from them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray


@cache
def trace_moment(n: int, d: int, k: int) -> Fraction:
    """E tr Sᵏ for S = XXᵀ/n, X of shape (d, n) with independent standard normal entries.

    A power sum in zonal polynomials (Jack's at α = 2), whose means are known: Macdonald, Symmetric
    Functions and Hall Polynomials, VI.10; Muirhead, Aspects of Multivariate Statistical Theory,
    theorem 7.2.7. Only partitions without the box (3, 2) have a coefficient.
    """
    if k == 0:
        return Fraction(d)
    total = Fraction(0)
    for rows in _partitions(k, d):
        boxes = [(i, j) for i, length in enumerate(rows) for j in range(length)]
        contents = [2 * j - i for i, j in boxes]
        coefficient = prod(
            content for content, box in zip(contents, boxes, strict=True) if any(box)
        )
        means = prod((n + content) * (d + content) for content in contents)
        total += Fraction(coefficient * means, prod(_hooks(rows, box) for box in boxes))
    return 2 * k * total / Fraction(n) ** k


@cache
def spectral_quadrature(n: int, d: int, nodes: int) -> tuple[NDArray[np.float64], ...]:
    """Nodes and weights, each of shape (nodes,), with Σ wᵢ f(λᵢ) = E tr f(S).

    Exact for polynomials f of degree up to 2·nodes − 1 (Golub and Welsch 1969, on exact moments by
    Chebyshev's algorithm), so a risk that is a polynomial in the eigenvalues needs no sampling.
    """
    moments = [trace_moment(n, d, k) for k in range(2 * nodes)]
    diagonal, squares = _recurrence(moments)
    off = np.sqrt(np.array([float(b) for b in squares[1:]]))
    jacobi = np.diag([float(a) for a in diagonal]) + np.diag(off, 1) + np.diag(off, -1)
    values, vectors = np.linalg.eigh(jacobi)
    return values, d * vectors[0] ** 2


def _partitions(k: int, rows: int) -> Iterator[tuple[int, ...]]:
    """Partitions of k into at most `rows` parts whose third and later parts are 1."""
    for second in range(k // 2 + 1):
        for ones in range(k - second + 1 if second else 1):
            first = k - second - ones
            if first < max(second, 1):
                continue
            shape = (first, second, *[1] * ones) if second else (first,)
            if len(shape) <= rows:
                yield shape


def _hooks(rows: tuple[int, ...], box: tuple[int, int]) -> int:
    i, j = box
    arm = rows[i] - j - 1
    leg = sum(length > j for length in rows[i + 1 :])
    return (2 * arm + leg + 1) * (2 * arm + leg + 2)


def _recurrence(moments: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Coefficients of the orthogonal polynomials, by Chebyshev's algorithm in exact arithmetic."""
    count = len(moments) // 2
    before, now = [Fraction(0)] * len(moments), moments
    diagonal, squares = [now[1] / now[0]], [now[0]]
    for k in range(1, count):
        later = [Fraction(0)] * len(moments)
        for m in range(k, len(moments) - k):
            later[m] = now[m + 1] - diagonal[-1] * now[m] - squares[-1] * before[m]
        diagonal.append(later[k + 1] / later[k] - now[k] / now[k - 1])
        squares.append(later[k] / now[k - 1])
        before, now = now, later
    return diagonal, squares
