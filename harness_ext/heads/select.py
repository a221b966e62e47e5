"""Which heads are taken: those that score highest, and random ones to compare them with."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from torch import Tensor

from harness_ext.errors import UsageError

Head = tuple[int, int]
"""Layer, and number of the head in it."""


def head_count(fraction: float, heads: int) -> int:
    """How many of so many heads a fraction of them is: rounded, but one at least."""
    return max(1, round(fraction * heads))


def top_heads(scores: Tensor, fraction: float) -> list[Head]:
    """The heads with the highest of `scores` [layers, heads], best first.

    `fraction` of all heads, rounded, but one at least. Of equal scores the earlier layer comes
    first, then the earlier head. Raises :class:`UsageError` for a fraction outside (0, 1].
    """
    if not 0 < fraction <= 1:
        raise UsageError(
            f"head_fraction={fraction}: it is the share of a model's heads that are taken, above 0 "
            "and at most 1. Yang et al. (2026) take 0.03."
        )
    count = head_count(fraction, scores.numel())
    order = scores.flatten().sort(descending=True, stable=True).indices[:count]
    return [divmod(index, scores.shape[1]) for index in order.tolist()]


def matched_heads(like: Sequence[Head], layers: int, heads: int, seed: str | int) -> list[Head]:
    """Random heads of a model of `layers` times `heads`, in order: none of `like`.

    As many in each layer as `like` has there. What a layer lacks, because `like` has most of its
    heads, the nearest layers give (of two as near, the earlier). Raises :class:`UsageError` where
    the whole model has too few others.
    """
    if 2 * len(like) > layers * heads:
        raise UsageError(
            f"{len(like)} random heads to compare with {len(like)} others cannot be drawn from the "
            f"{layers * heads - len(like)} heads that remain of {layers * heads}. Choose a "
            "head_fraction of at most 0.5."
        )
    generator = random.Random(seed)
    free = [
        [(layer, head) for head in range(heads) if (layer, head) not in like]
        for layer in range(layers)
    ]
    for rest in free:
        generator.shuffle(rest)
    drawn: list[Head] = []
    missing: list[int] = []
    for layer, count in sorted(Counter(layer for layer, _ in like).items()):
        drawn += free[layer][:count]
        missing += [layer] * max(0, count - len(free[layer]))
        del free[layer][:count]
    for layer in missing:
        nearest = sorted(range(layers), key=lambda other: abs(other - layer))
        drawn.append(next(free[other].pop(0) for other in nearest if free[other]))
    return sorted(drawn)
