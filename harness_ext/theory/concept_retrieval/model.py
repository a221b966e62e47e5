"""One attention layer with residual stream and normalisation, many seeds at once.

h0 = sum_{l<L} W_V T_l softmax((W_K T_l)^T W_Q T_L), h = h0 / |h0| + T_L; the logits are h against
the rows of the dictionary (Bu et al. 2025, arXiv 2508.09820).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Architecture:
    """Which parts of h = h0 / |h0| + T_L a model has."""

    residual: bool = True
    normalised: bool = True


@dataclass(frozen=True)
class Weights:
    """W_V, W_K and W_Q of several models, each of shape (models, d, d)."""

    value: Tensor
    key: Tensor
    query: Tensor

    @property
    def attention(self) -> Tensor:
        """W_K^T W_Q, shape (models, d, d)."""
        return self.key.mT @ self.query

    def model(self, index: int) -> Weights:
        """One of the models, as a batch of one."""
        one = slice(index, index + 1)
        return Weights(self.value[one], self.key[one], self.query[one])


def initial_weights(seeds: Sequence[int], dimension: int, spread: float) -> Weights:
    """Gaussian entries of standard deviation `spread`; a model depends on its own seed alone."""
    drawn = torch.stack(
        [
            spread * torch.randn(3, dimension, dimension, generator=stream(seed, "weights"))
            for seed in seeds
        ],
        dim=1,
    )
    return Weights(*drawn)


def task_vectors(weights: Weights, tokens: Tensor) -> Tensor:
    """h0 of each prompt, shape (models, batch, d); `tokens` is (models, batch, length, d).

    The last token asks; those before it are attended to. In a prompt without a query the last
    label asks.
    """
    asked = tokens[:, :, -1] @ weights.query.mT @ weights.key
    seen = tokens[:, :, :-1]
    attention = torch.einsum("mbld,mbd->mbl", seen, asked).softmax(dim=-1)
    return torch.einsum("mbl,mbld->mbd", attention, seen) @ weights.value.mT


def hidden_states(task: Tensor, query: Tensor, architecture: Architecture) -> Tensor:
    """h of each prompt from its h0 (`task`) and its last token, all of shape (…, d)."""
    state = task / task.norm(dim=-1, keepdim=True) if architecture.normalised else task
    return state + query if architecture.residual else state


def stream(seed: int, purpose: str) -> torch.Generator:
    """A random generator for one seed and purpose, independent of all others."""
    digest = hashlib.sha256(f"{purpose}/{seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
