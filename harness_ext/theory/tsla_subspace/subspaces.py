"""Random subspaces, and how much of a head's output lies in them.

The share of a vector a in a subspace is |P a|^2 / |a|^2, P the orthogonal projector. For a fixed a
and a uniformly random subspace of dimension m in R^d it is Beta(m/2, (d − m)/2) distributed.
"""

from __future__ import annotations

import math

import torch
from scipy import stats
from torch import Tensor

from harness_ext.errors import UsageError

SHARED = 0.5
"""Squared cosine of a label's unembedding with the direction that all labels share, in the model
of label subspaces that are not uniform; also the cosine of two such labels."""


def uniform_subspaces(count: int, dimension: int, size: int, generator: torch.Generator) -> Tensor:
    """Orthonormal bases of subspaces uniform on the Grassmannian, shape (count, d, m), float64.

    Raises UsageError for a size that is not between 1 and d − 1.
    """
    _check_size(dimension, size)
    return _orthonormal(_normal((count, dimension, size), generator))


def sharing_subspaces(count: int, dimension: int, size: int, generator: torch.Generator) -> Tensor:
    """Spans of m label vectors that share the first basis direction, shape (count, d, m).

    Each label is that direction plus an independent Gaussian vector of about the same length.
    """
    _check_size(dimension, size)
    labels = _normal((count, dimension, size), generator) * math.sqrt((1 - SHARED) / dimension)
    labels[:, 0] += math.sqrt(SHARED)
    return _orthonormal(labels)


def directions(count: int, dimension: int, generator: torch.Generator) -> Tensor:
    """Uniform unit vectors, shape (count, d)."""
    return _unit(_normal((count, dimension), generator))


def aligned_vectors(subspaces: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Unit vectors with that share in their subspaces, uniform otherwise: (count, d).

    `subspaces` holds orthonormal bases, shape (count, d, m). Raises UsageError for a share outside
    0 to 1.
    """
    if not 0 <= share <= 1:
        raise UsageError(f"share is {share}; the share of a vector is between 0 and 1")
    drawn = _normal(subspaces.shape[:2], generator)
    inside = project(drawn, subspaces)
    return math.sqrt(share) * _unit(inside) + math.sqrt(1 - share) * _unit(drawn - inside)


def common_vectors(count: int, dimension: int, generator: torch.Generator) -> Tensor:
    """Unit vectors, half of whose squared length is on the first basis direction: (count, d)."""
    drawn = _normal((count, dimension), generator)
    drawn[:, 0] = 0
    vectors = math.sqrt(0.5) * _unit(drawn)
    vectors[:, 0] = math.sqrt(0.5)
    return vectors


def project(vectors: Tensor, subspaces: Tensor) -> Tensor:
    """Projections on subspaces with orthonormal bases (…, d, m), shape (…, d)."""
    coordinates = subspaces.mT @ vectors[..., None]
    return (subspaces @ coordinates)[..., 0]


def shares(vectors: Tensor, subspaces: Tensor) -> Tensor:
    """|P a|^2 / |a|^2 of vectors (…, d) in subspaces with orthonormal bases (…, d, m)."""
    inside = (subspaces.mT @ vectors[..., None]).square().sum(dim=(-2, -1))
    return inside / vectors.square().sum(dim=-1)


def exceeding_probability(share: float, dimension: int, size: int) -> float:
    """Probability that a uniform subspace holds a larger share of a fixed vector than `share`."""
    _check_size(dimension, size)
    return float(stats.beta.sf(share, size / 2, (dimension - size) / 2))


def decay_rate(share: float) -> float:
    """−d log P / dd of :func:`exceeding_probability` for large d and fixed size.

    The tail of Beta(m/2, (d − m)/2) at the share s is (1 − s)^((d − m)/2) times a power of d.
    """
    return -0.5 * math.log1p(-share)


def _check_size(dimension: int, size: int) -> None:
    if not 1 <= size < dimension:
        raise UsageError(
            f"subspace dimension is {size} in {dimension} dimensions; "
            f"it must be between 1 and {dimension - 1}"
        )


def _orthonormal(columns: Tensor) -> Tensor:
    return torch.linalg.qr(columns).Q


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)
