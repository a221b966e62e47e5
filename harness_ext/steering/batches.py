"""Batches of token rows under a token budget, and their padding.

lm-eval's `batch_size` says how many requests are answered together; what steering runs besides
(extraction, development episodes) follows a budget of padded tokens instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


def pad_left(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids, attention mask and position ids, each [rows, longest], filled up on the left.

    Real tokens count their positions from 0; the filling is masked out.
    """
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long, device=device)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        if row:
            ids[i, width - len(row) :] = torch.tensor(row, device=device)
            mask[i, width - len(row) :] = 1
    return ids, mask, (mask.cumsum(dim=1) - 1).clamp(min=0)
