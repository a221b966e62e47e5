"""Token dropout in the linear-attention model."""

from __future__ import annotations

import torch
from torch import Tensor

from harness_ext.theory.linear_attention.model import Weights, attention


def draw_masks(
    generator: torch.Generator, p: float, layers: int, prompts: int, tokens: int
) -> Tensor:
    """Which tokens are kept, each with probability p: shape (layers, prompts, tokens), boolean."""
    return torch.rand(layers, prompts, tokens, generator=generator) < p


def dropped_forward(weights: Weights, state: Tensor, n: int, kept: Tensor) -> Tensor:
    """The last state where each layer attends only to the tokens kept in it.

    A dropped token is attended to by no token in that layer; its own state goes on.

    Args:
        weights: weights, any batch dimensions.
        state: prompts' tokens, shape (prompts, 2d, tokens).
        n: demonstrations per prompt.
        kept: shape (layers, prompts, tokens), shared by all sets of weights.

    Returns:
        shape (*batch, prompts, 2d, tokens).
    """
    d = state.shape[-2] // 2
    for layer in range(weights.layers):
        scores = attention(weights, layer, state) * kept[layer, :, :, None]
        upper = weights.upper[..., layer, :, :].unsqueeze(-3) @ state[..., :d, :]
        lower = weights.lower[..., layer, :, :].unsqueeze(-3) @ state[..., d:, :]
        state = state + torch.cat([upper, lower], -2) @ scores / n
    return state
