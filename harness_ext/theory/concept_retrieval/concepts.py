"""Task vectors, low-level vectors, and the dictionary of tokens made of them.

The model of Bu et al. 2025 (arXiv 2508.09820): K task vectors a_k, K low-level vectors b_k and K'
common tokens, all orthonormal. The dictionary has 7K + K' rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from harness_ext.errors import UsageError

WORD = 0.1
"""The coefficient of a_k in a word token; a label token has 1."""

Placement = Literal["cone", "signed", "outside"]
"""Where unseen task vectors lie: conic or signed combinations of trained ones, or neither."""


@dataclass(frozen=True)
class Concepts:
    """Orthonormal vectors; every class of token is made of them.

    Attributes:
        high: a_k, shape (K, d).
        low: b_k, shape (K, d).
        common: tokens that carry no concept, shape (K', d).
    """

    high: Tensor
    low: Tensor
    common: Tensor

    @property
    def count(self) -> int:
        return len(self.high)

    @property
    def dimension(self) -> int:
        return self.high.shape[1]

    def dictionary(self) -> Tensor:
        """All tokens without noise, shape (7K + K', d).

        In order: labels a_k ± b_k (row 2k for +, 2k + 1 for −), words 0.1 a_k ± b_k, b_k, −b_k,
        a_k, common tokens.
        """
        return torch.cat(
            [
                _both_signs(self.high, self.low),
                _both_signs(WORD * self.high, self.low),
                self.low,
                -self.low,
                self.high,
                self.common,
            ]
        )


def trained_concepts(count: int, common: int, dimension: int) -> Concepts:
    """Concepts on the first 2K + K' basis vectors.

    Nothing else in the model prefers a direction (weights and noise are isotropic Gaussian), so any
    other orthonormal vectors would give the same distribution of every figure.

    Raises UsageError for fewer than 2 concepts (a distractor needs another) or for more vectors
    than dimensions.
    """
    if count < 2 or common < 1:
        raise UsageError(
            f"{count} concepts and {common} common tokens; "
            "concept-retrieval needs at least 2 concepts and 1 common token"
        )
    if 2 * count + common > dimension:
        raise UsageError(
            f"dimension is {dimension}, but {count} concepts and {common} common tokens are "
            f"{2 * count + common} orthogonal vectors; give at least that many dimensions"
        )
    basis = torch.eye(dimension)
    return Concepts(basis[:count], basis[count : 2 * count], basis[2 * count : 2 * count + common])


def unseen_concepts(
    trained: Concepts, placement: Placement, generator: torch.Generator
) -> Concepts:
    """K // 2 new concepts with new low-level vectors, orthonormal again.

    `cone` and `signed` give a'_j = cos(t) a_2j ± sin(t) a_2j+1 with t between 18 and 72 degrees;
    `outside` gives directions orthogonal to everything trained.

    Raises UsageError where the dimensions left over are too few.
    """
    new = trained.count // 2
    used = 2 * trained.count + len(trained.common)
    free = torch.eye(trained.dimension)[used:]
    if len(free) < 2 * new:
        raise UsageError(
            f"dimension is {trained.dimension}, which leaves {len(free)} unused directions; "
            f"unseen concepts need {2 * new}: give at least {used + 2 * new} dimensions"
        )
    low = free[:new]
    if placement == "outside":
        return Concepts(free[new : 2 * new], low, trained.common)
    angle = (0.1 + 0.3 * torch.rand(new, 1, generator=generator)) * math.pi
    sign = 1 if placement == "cone" else -1
    first, second = trained.high[0 : 2 * new : 2], trained.high[1 : 2 * new : 2]
    return Concepts(angle.cos() * first + sign * angle.sin() * second, low, trained.common)


def _both_signs(high: Tensor, low: Tensor) -> Tensor:
    """Rows high_k + low_k and high_k − low_k in turn, shape (2K, d)."""
    return torch.stack([high + low, high - low], dim=1).flatten(0, 1)
