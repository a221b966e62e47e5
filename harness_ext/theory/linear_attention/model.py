"""The linear-attention transformer of Dong et al. 2026 (arXiv 2506.09048), section 3.

A layer is Z ← Z + (1/n) V Z M Zaugᵀ Q Zaug with V = diag(A, B) and Q = diag(C, 0, D), where Zaug
has one-hot positions appended and M hides the last token from the keys. Written out, the attention
matrix is Xᵀ C X + D, X the upper half of Z, with keys as rows and queries as columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from harness_ext.theory.linear_attention.prompts import Pairs


@dataclass(frozen=True)
class Weights:
    """Weights of all layers, with any leading batch dimensions (seeds, say).

    Attributes:
        upper: A, value map of the upper half, shape (*batch, L, d, d).
        lower: B, value map of the lower half, shape (*batch, L, d, d).
        content: C, attention between upper halves, shape (*batch, L, d, d).
        position: D, attention between positions, shape (*batch, L, p, p).
        lift: from the lower to the upper half, shape (*batch, L, d, d): A0 of Theorem 7, where x
            and y both start in the lower half; None for V = diag(A, B).
    """

    upper: Tensor
    lower: Tensor
    content: Tensor
    position: Tensor
    lift: Tensor | None = None

    def tensors(self) -> dict[str, Tensor]:
        """The weights by name, without those that are None."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    def map(self, change: dict[str, Tensor]) -> Weights:
        """These weights with some replaced, by name."""
        return Weights(**(self.tensors() | change))

    @property
    def layers(self) -> int:
        """The number of layers L."""
        return self.upper.shape[-3]


def attention(weights: Weights, layer: int, state: Tensor, signs: Tensor | None = None) -> Tensor:
    """Xᵀ C X + D with the last key hidden, shape (*batch, prompts, p, p): keys × queries.

    `state` has shape (*batch, prompts, 2d, p), `batch` being that of the weights. `signs`, shape
    (*batch, prompts, p), multiplies D's rows and columns, as the released training code does.
    """
    d = weights.upper.shape[-1]
    x = state[..., :d, :]
    content = weights.content[..., layer, :, :].unsqueeze(-3)
    position = weights.position[..., layer, :, :].unsqueeze(-3)
    if signs is not None:
        position = signs.unsqueeze(-1) * position * signs.unsqueeze(-2)
    scores = x.mT @ content @ x + position
    seen = torch.ones(scores.shape[-1], 1, dtype=scores.dtype)
    seen[-1] = 0
    return scores * seen


def update(
    weights: Weights, layer: int, state: Tensor, n: int, signs: Tensor | None = None
) -> Tensor:
    """What a layer adds to the state, same shape as the state: (*batch, prompts, 2d, p)."""
    d = weights.upper.shape[-1]
    upper, lower = state[..., :d, :], state[..., d:, :]
    to_upper = weights.upper[..., layer, :, :].unsqueeze(-3) @ upper
    if weights.lift is not None:
        to_upper = to_upper + weights.lift[..., layer, :, :].unsqueeze(-3) @ lower
    to_lower = weights.lower[..., layer, :, :].unsqueeze(-3) @ lower
    return torch.cat([to_upper, to_lower], -2) @ attention(weights, layer, state, signs) / n


def states(weights: Weights, state: Tensor, n: int) -> Iterator[Tensor]:
    """The state before the first layer and after each, L + 1 tensors of the state's shape."""
    yield state
    for layer in range(weights.layers):
        state = state + update(weights, layer, state, n)
        yield state


def forward(weights: Weights, state: Tensor, n: int) -> Tensor:
    """The state after the last layer, shape (*batch, prompts, 2d, p)."""
    *_, last = states(weights, state, n)
    return last


def prediction(last: Tensor) -> Tensor:
    """The last token's lower half, trained to equal −y: shape (*batch, prompts, d)."""
    return last[..., last.shape[-2] // 2 :, -1]


def squared_errors(weights: Weights, state: Tensor, pairs: Pairs) -> Tensor:
    """‖TF + W x‖² / d of each prompt, shape (*batch, prompts): the mean over the d coordinates."""
    n = pairs.inputs.shape[-1] - 1
    return (prediction(forward(weights, state, n)) + pairs.answers).square().mean(-1)
