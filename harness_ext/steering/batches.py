"""Batches of token rows under a token budget, and their padding.

lm-eval's `batch_size` says how many requests are answered together; what steering runs besides
(extraction, development episodes) follows a budget of padded tokens instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import torch
from torch import Tensor

TOKEN_BUDGET = 4096
"""Padded tokens that one internal forward may hold."""


def by_length(lengths: Sequence[int], budget: int = TOKEN_BUDGET) -> Iterator[list[int]]:
    """Indices of `lengths` in batches of similar length, each of at most `budget` padded tokens.

    The longest come first, so that memory peaks at once. A row longer than the budget runs alone.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def pad_right(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Token ids [rows, longest], shorter rows filled up with 0 on the right.

    Under causal attention nothing to the left of the filling sees it, so no mask is needed as long
    as only real positions are read.
    """
    width = max(map(len, rows))
    filled = [[*row, *[0] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long, device=device)


def of_equal_shape(
    lengths: Sequence[int], shapes: Sequence[Hashable], budget: int = TOKEN_BUDGET
) -> Iterator[list[int]]:
    """The same, every batch holding rows of one shape only (the length may be part of it)."""
    groups: dict[Hashable, list[int]] = {}
    for index, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(index)
    for members in groups.values():
        for batch in by_length([lengths[index] for index in members], budget):
            yield [members[i] for i in batch]
