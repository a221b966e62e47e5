"""Points to integrate a risk over: exact in the spectrum, or exact in the radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import roots_genlaguerre
from scipy.stats import chi2, norm, qmc
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.moments import spectral_quadrature


@dataclass(frozen=True)
class Spectrum:
    """Quadrature over the eigenvalues of S, exact for single-token prompts.

    Attributes:
        values: eigenvalues, shape (nodes,).
        weights: their weights, which sum to d, shape (nodes,).
    """

    values: Tensor
    weights: Tensor

    @classmethod
    def exact(cls, n: int, d: int, layers: int) -> Spectrum:
        """Nodes enough for the risk of `layers` layers: of degree 3^L − 1 in the eigenvalues."""
        values, weights = spectral_quadrature(n, d, (3**layers + 1) // 2)
        return cls(torch.from_numpy(values), torch.from_numpy(weights))


@dataclass(frozen=True)
class Sample:
    """Points (S, x) with weights: quasi-random directions, each with an exact radius.

    Attributes:
        covariance: S, shape (d, d, points).
        query: x, shape (d, points).
        weights: shape (points,), summing to 1.
        n: demonstrations that S was made of.
    """

    covariance: Tensor
    query: Tensor
    weights: Tensor
    n: int

    @classmethod
    def draw(cls, seed: int, n: int, d: int, directions: int, radii: int) -> Sample:
        """`directions` scrambled Sobol points (a power of 2), `radii` Gauss-Laguerre radii each.

        All inputs of a prompt together have a radius r with r² chi-square of d(n + 1) degrees,
        independent of their direction, and the risk is a polynomial in r²: its steep tail, in which
        plain sampling is lost, is integrated exactly up to degree 2·radii − 1. Directions are drawn
        from a Wishart of fewer degrees of freedom, where uneven spectra, the other tail, come more
        often, and weighted back. S comes by Bartlett's decomposition; x lies on the first axis.
        Raises :class:`UsageError` for n < d.
        """
        if n < d:
            raise UsageError(f"n is {n}, below d = {d}: S = XXᵀ/n needs at least d demonstrations")
        drawn = max(d, round(DRAWN_SHARE * n))
        below = d * (d - 1) // 2
        points = qmc.Sobol(below + d + 1, rng=np.random.default_rng(seed)).random(directions)
        points = np.clip(points, 1e-12, 1 - 1e-12)
        factor = np.zeros((directions, d, d))
        rows, columns = np.tril_indices(d, -1)
        factor[:, rows, columns] = norm.ppf(points[:, :below])
        diagonal = np.sqrt(chi2.ppf(points[:, below:-1], drawn - np.arange(d)))
        factor[:, np.arange(d), np.arange(d)] = diagonal
        length = np.sqrt(chi2.ppf(points[:, -1], d))
        squares = (factor**2).sum((1, 2)) + length**2
        logs = (n - drawn) / 2 * (2 * np.log(diagonal).sum(1) - d * np.log(squares))
        share = np.exp(logs - logs.max())
        nodes, masses = roots_genlaguerre(radii, d * (n + 1) / 2 - 1)
        weights = np.outer(share / share.sum(), masses / masses.sum())
        scale = np.sqrt(2 * nodes / squares[:, None])
        covariance = np.einsum("pik,pjk,pr->ijpr", factor, factor, scale**2) / n
        query = np.zeros((d, *scale.shape))
        query[0] = length[:, None] * scale
        return cls(
            torch.from_numpy(covariance).flatten(2),
            torch.from_numpy(query).flatten(1),
            torch.from_numpy(weights).flatten(),
            n,
        )


DRAWN_SHARE = 0.75
"""Degrees of freedom that directions are drawn from, as a share of n."""
