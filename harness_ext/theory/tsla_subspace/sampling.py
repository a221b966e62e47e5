"""Monte Carlo: how often another subspace holds as much of a head's output as the task's."""

from __future__ import annotations

import torch
from torch import Tensor

from harness_ext.theory.tsla_subspace.subspaces import (
    aligned_vectors,
    common_vectors,
    directions,
    exceeding_probability,
    shares,
    sharing_subspaces,
    uniform_subspaces,
)

SHARE = 0.3
"""The share of a head's output in the task subspace that counts as a large TR score here."""

LABELS = 4
OTHERS = 100
TOP = 0.03
"""The share of heads that counts as TR heads in the paper."""

SPREAD = 1.0
"""Standard deviation of the logarithm of head outputs' norms: most within a factor of 7."""

MARGIN = 0.15
"""How far the shares in a quarter of all dimensions lie from that quarter."""

Figures = dict[str, float]


def measure(dimension: int, draws: int, generator: torch.Generator) -> Figures:
    """All shares at one dimension, each of `draws` independent (head, task, other task)."""
    return (
        _aligned(dimension, draws, generator)
        | _many(dimension, draws // 40, generator)
        | _proportional(dimension, draws // 4, generator)
        | _top_heads(dimension, draws, generator)
        | _sharing(dimension, draws, generator)
    )


def _aligned(dimension: int, draws: int, generator: torch.Generator) -> Figures:
    """Heads with SHARE of their output in the task subspace, and heads that know no task."""
    task = uniform_subspaces(draws, dimension, LABELS, generator)
    other = uniform_subspaces(draws, dimension, LABELS, generator)
    aligned = aligned_vectors(task, SHARE, generator)
    unrelated = directions(draws, dimension, generator)
    return {
        "other larger, aligned": _rate(shares(aligned, other) >= SHARE),
        "other larger, aligned, exact": exceeding_probability(SHARE, dimension, LABELS),
        "other larger, unrelated": _rate(shares(unrelated, other) >= shares(unrelated, task)),
    }


def _many(dimension: int, draws: int, generator: torch.Generator) -> Figures:
    """The task subspace against OTHERS other subspaces at once."""
    unrelated = directions(draws, dimension, generator)
    task = uniform_subspaces(draws, dimension, LABELS, generator)
    aligned = aligned_vectors(task, SHARE, generator)
    best = torch.zeros(2, draws, dtype=torch.float64)
    for _ in range(OTHERS):
        other = uniform_subspaces(draws, dimension, LABELS, generator)
        best = torch.maximum(best, shares(torch.stack([aligned, unrelated]), other))
    one = exceeding_probability(SHARE, dimension, LABELS)
    return {
        "any of many larger, aligned": _rate(best[0] >= SHARE),
        "any of many larger, aligned, exact": 1 - (1 - one) ** OTHERS,
        "any of many larger, unrelated": _rate(best[1] >= shares(unrelated, task)),
    }


def _proportional(dimension: int, draws: int, generator: torch.Generator) -> Figures:
    """Subspaces of a quarter of all dimensions; shares above and below that quarter."""
    size = dimension // 4
    task = uniform_subspaces(draws, dimension, size, generator)
    other = uniform_subspaces(draws, dimension, size, generator)
    figures: Figures = {}
    for name, share in (("above", 0.25 + MARGIN), ("below", 0.25 - MARGIN)):
        head = aligned_vectors(task, share, generator)
        figures[f"other larger, {name} chance"] = _rate(shares(head, other) >= share)
        figures[f"other larger, {name} chance, exact"] = exceeding_probability(
            share, dimension, size
        )
    return figures


def _top_heads(dimension: int, draws: int, generator: torch.Generator) -> Figures:
    """The top 3 % of heads of random directions and norms, by TR score and by share.

    All heads are scored on one task each and compared on one other task each.
    """
    task = uniform_subspaces(draws, dimension, LABELS, generator)
    other = uniform_subspaces(draws, dimension, LABELS, generator)
    heads = directions(draws, dimension, generator)
    norms = (SPREAD * torch.randn(draws, generator=generator, dtype=torch.float64)).exp()
    own, others = shares(heads, task), shares(heads, other)
    score = norms * own.sqrt()
    count = round(TOP * draws)
    by_score, by_share = score.topk(count).indices, own.topk(count).indices
    return {
        "other larger, top by score": _rate((others >= own)[by_score]),
        "other larger, top by share": _rate((others >= own)[by_share]),
    }


def _sharing(dimension: int, draws: int, generator: torch.Generator) -> Figures:
    """Label subspaces with a common direction, and heads that write half along it."""
    task = sharing_subspaces(draws, dimension, LABELS, generator)
    other = sharing_subspaces(draws, dimension, LABELS, generator)
    heads = common_vectors(draws, dimension, generator)
    own = shares(heads, task)
    aligned = aligned_vectors(task, own.mean().item(), generator)
    uniform = uniform_subspaces(draws, dimension, LABELS, generator)
    return {
        "share of heads on the common direction": own.mean().item(),
        "other larger, common direction": _rate(shares(heads, other) >= own),
        "other larger, same share, uniform": _rate(shares(aligned, uniform) >= own.mean()),
    }


def _rate(events: Tensor) -> float:
    return events.double().mean().item()
