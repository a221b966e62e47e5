"""In-context regression prompts: y_i = W x_i, laid out in one, two or three tokens per pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from harness_ext.errors import UsageError

Format = Literal["single", "pairwise", "triplet"]

TOKENS: dict[Format, int] = {"single": 1, "pairwise": 2, "triplet": 3}
"""Tokens per pair."""


@dataclass(frozen=True)
class Pairs:
    """Regression tasks with demonstrations and one query.

    Attributes:
        maps: W, shape (*batch, d, d).
        inputs: x_1 … x_n and the query x as columns, shape (*batch, d, n + 1).
    """

    maps: Tensor
    inputs: Tensor

    @property
    def outputs(self) -> Tensor:
        """y_1 … y_n and the query's y as columns, shape (*batch, d, n + 1)."""
        return self.maps @ self.inputs

    @property
    def answers(self) -> Tensor:
        """The query's y, shape (*batch, d)."""
        return self.outputs[..., -1]


def draw_pairs(
    generator: torch.Generator, n: int, d: int, *batch: int, dtype: torch.dtype = torch.float64
) -> Pairs:
    """Entries of W and x independent standard normal (Dong et al. 2026, section 3)."""
    if n < 1 or d < 1:
        raise UsageError(f"n is {n} and d is {d}; both must be at least 1")
    maps = torch.randn(*batch, d, d, generator=generator, dtype=dtype)
    inputs = torch.randn(*batch, d, n + 1, generator=generator, dtype=dtype)
    return Pairs(maps, inputs)


def tokens(pairs: Pairs, layout: Format, separable: bool = True) -> Tensor:
    """The prompt's tokens as columns, shape (*batch, 2d, TOKENS[layout] · (n + 1)).

    `single` has [x; y] per pair, `pairwise` [x; 0] [0; y], `triplet` [x; 0] [0; 0] [0; y]; the
    query's y is 0. Not `separable` (Theorem 7) puts x into the lower half, where y is.
    """
    size = TOKENS[layout]
    d, columns = pairs.inputs.shape[-2:]
    outputs = torch.cat([pairs.outputs[..., :-1], torch.zeros_like(pairs.outputs[..., -1:])], -1)
    state = pairs.inputs.new_zeros(*pairs.inputs.shape[:-2], 2 * d, size * columns)
    half = slice(0, d) if separable else slice(d, 2 * d)
    state[..., half, 0::size] = pairs.inputs
    # Both assignments meet in one token only for the single layout, and there in separate halves.
    state[..., d:, size - 1 :: size] += outputs
    return state
