"""Induction heads: those that look at what followed the last time the same token stood there."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.attention_weights import weights_at_each


def induction_scores(
    anatomy: Anatomy,
    start: Sequence[int],
    vocabulary: Sequence[int],
    seed: int,
    sequences: int = 8,
    length: int = 50,
) -> Tensor:
    """How much each head attends as an induction head does: [layers, heads], from 0 to 1.

    On each of `sequences` rows, the tokens of `start`, then `length` different tokens drawn from
    `vocabulary`, then the same again: the mean weight that a token of the repetition gives to the
    token after its first occurrence (Olsson et al. 2022, the prefix-matching score). Raises
    :class:`UsageError` for a vocabulary of fewer tokens, and as :func:`weights_at_each` does.
    """
    if len(vocabulary) < length:
        raise UsageError(
            f"induction heads are scored on {length} different random tokens; the vocabulary has "
            f"only {len(vocabulary)}."
        )
    generator = torch.Generator().manual_seed(seed)
    drawn = [
        [vocabulary[i] for i in torch.randperm(len(vocabulary), generator=generator)[:length]]
        for _ in range(sequences)
    ]
    rows = [[*start, *tokens, *tokens] for tokens in drawn]
    first = len(start)
    repeated = range(first + length, first + 2 * length)
    weights = torch.stack(weights_at_each(anatomy, rows, [repeated] * sequences))
    followers = torch.tensor([position - length + 1 for position in repeated])
    # [sequences, layers, heads, repeated, tokens]: of each repeated token the weight of one token.
    return weights[..., torch.arange(length), followers].mean(dim=(0, 3))
