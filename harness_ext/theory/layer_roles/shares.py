"""What a layer's update is made of, and how well-conditioned the state is that it meets.

Of a layer's update ΔZ, the share explained by mixing within pairs is that of its best fit
Z M (I_n ⊗ E, E′), any T×T blocks E for demonstrations and E′ for the query, upper and lower half
apart; the share explained by descent is that of −λ Z M XᵀX, with a λ for each half. Shares are of
squared norms, every prompt counted alike. Of the last layer only what it writes into the answer
counts: nothing reads the rest, which training leaves anywhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from harness_ext.theory.linear_attention.model import Weights, squared_errors, update
from harness_ext.theory.linear_attention.prompts import TOKENS, Format, draw_pairs, tokens


@dataclass(frozen=True)
class Role:
    """A layer's role.

    Attributes:
        mixing: share of the update explained by mixing within pairs.
        descent: share explained by −λ Z M XᵀX.
        both: share explained by the two together.
        condition: median condition number of X M Xᵀ as the layer meets it.
    """

    mixing: float
    descent: float
    both: float
    condition: float

    def figures(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


def roles(weights: Weights, layout: Format, n: int, d: int, prompts: int, seed: int) -> list[Role]:
    """The role of each layer of one model on random prompts (weights without batch dimensions)."""
    pairs = draw_pairs(torch.Generator().manual_seed(seed), n, d, prompts)
    state = tokens(pairs, layout)
    found = []
    for layer in range(weights.layers):
        change = update(weights, layer, state, n)
        only_answer = layer == weights.layers - 1
        mixing, descent = _explanations(state, layout, d, only_answer)
        target = _relevant(change, d, only_answer)
        found.append(
            Role(
                explained(target, mixing),
                explained(target, descent),
                explained(target, mixing + descent),
                float(condition_numbers(state, d).median()),
            )
        )
        state = state + change
    return found


def cost_of_no_later_mixing(
    weights: Weights, layout: Format, n: int, d: int, prompts: int, seed: int
) -> float:
    """Median error with D = 0 in all layers but the first, over the median error of the model."""
    pairs = draw_pairs(torch.Generator().manual_seed(seed), n, d, prompts)
    state = tokens(pairs, layout)
    position = weights.position.clone()
    position[1:] = 0
    without = squared_errors(weights.map({"position": position}), state, pairs).median()
    return float(without / squared_errors(weights, state, pairs).median())


def condition_numbers(state: Tensor, d: int) -> Tensor:
    """Of X M Xᵀ, X the upper halves of the tokens: shape (prompts, 2d, p) to (prompts,)."""
    x = state[..., :d, :-1]
    values = torch.linalg.eigvalsh(x @ x.mT)
    return values[..., -1] / values[..., 0]


def explained(target: Tensor, parts: list[Tensor]) -> float:
    """Share of the target's squared norm in the parts' span, all of shape (prompts, …).

    Every prompt's target is scaled to norm 1 first. 0 without any part.
    """
    parts = [part for part in parts if part.abs().max() > 0]
    if not parts:
        return 0.0
    scale = target.flatten(1).norm(dim=1, keepdim=True)
    rows = (target.flatten(1) / scale).flatten()
    columns = torch.stack([(part.flatten(1) / scale).flatten() for part in parts], 1)
    # Orthonormal columns first: parts may depend on each other.
    left, values, _ = torch.linalg.svd(columns, full_matrices=False)
    basis = left[:, values > 1e-10 * values[0]]
    return float((basis.mT @ rows).square().sum() / rows.square().sum())


def _explanations(
    state: Tensor, layout: Format, d: int, only_answer: bool
) -> tuple[list[Tensor], list[Tensor]]:
    side, size = TOKENS[layout], state.shape[-1]
    count = size // side
    read = state.clone()
    read[..., -1] = 0
    x = state[..., :d, :]
    gram = read[..., :d, :].mT @ x
    query = torch.zeros(count, dtype=state.dtype)
    query[-1] = 1
    mixing, descent = [], []
    for half in (slice(0, d), slice(d, 2 * d)):
        part = torch.zeros_like(read)
        part[..., half, :] = read[..., half, :]
        descent.append(_relevant(part @ gram, d, only_answer))
        for own in (1 - query, query):
            for entry in range(side * side):
                block = torch.zeros(side * side, dtype=state.dtype)
                block[entry] = 1
                mixed = part @ torch.kron(own.diag(), block.view(side, side))
                mixing.append(_relevant(mixed, d, only_answer))
    return mixing, descent


def _relevant(change: Tensor, d: int, only_answer: bool) -> Tensor:
    return change[..., d:, -1:] if only_answer else change
