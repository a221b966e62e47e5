"""How much kinds of attention heads, or heads of different tasks, are the same."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import hypergeom, kendalltau, spearmanr
from torch import Tensor

from harness_ext.analysis.means import mean_of_known
from harness_ext.heads.select import Head, top_heads


@dataclass(frozen=True)
class Agreement:
    """How alike two scores order a model's heads.

    jaccard: heads that both have among their top ones, as a share of those that either has.
    by_chance: what it would be in the mean if one of the scores were drawn at random. kendall,
    spearman: rank correlations over all heads, from -1 to 1; None where a score is the same for all
    heads.
    """

    jaccard: float
    by_chance: float
    kendall: float | None
    spearman: float | None


@dataclass(frozen=True)
class Ranks:
    """Where heads stand in an order of all heads: 0 is the first, 1 the last.

    median: of their places. within: share of them that stand in the first part, up to `limit`.
    """

    median: float
    limit: float
    within: float


def agreement(one: Tensor, other: Tensor, fraction: float) -> Agreement:
    """How alike two scores [layers, heads] are, their top heads being `fraction` of all."""
    first, second = set(top_heads(one, fraction)), set(top_heads(other, fraction))
    x, y = one.flatten().double().numpy(), other.flatten().double().numpy()
    if min(x.std(), y.std()) == 0:
        kendall, spearman = None, None
    else:
        kendall, spearman = float(kendalltau(x, y).statistic), float(spearmanr(x, y).statistic)
    return Agreement(
        jaccard=len(first & second) / len(first | second),
        by_chance=jaccard_by_chance(len(first), one.numel()),
        kendall=kendall,
        spearman=spearman,
    )


def mean_agreement(found: Sequence[Agreement]) -> Agreement:
    """The means of several; of correlations over those that exist."""
    return Agreement(
        jaccard=statistics.fmean(each.jaccard for each in found),
        by_chance=statistics.fmean(each.by_chance for each in found),
        kendall=mean_of_known(each.kendall for each in found),
        spearman=mean_of_known(each.spearman for each in found),
    )


def jaccard_by_chance(chosen: int, heads: int) -> float:
    """Mean Jaccard index of `chosen` of `heads` heads with as many drawn at random."""
    shared = range(chosen + 1)
    chances = hypergeom.pmf(list(shared), heads, chosen, chosen)
    return float(sum(p * n / (2 * chosen - n) for n, p in zip(shared, chances, strict=True)))


def ranks(scores: Tensor, heads: Sequence[Head], limit: float) -> Ranks:
    """Where `heads` stand in the order of `scores` [layers, heads], the highest first.

    limit: the first part of all heads, above 0 and at most 1, rounded as for :func:`top_heads`.
    """
    order = {head: place for place, head in enumerate(top_heads(scores, 1))}
    last = max(1, scores.numel() - 1)
    first = set(top_heads(scores, limit))
    return Ranks(
        median=statistics.median(order[head] / last for head in heads),
        limit=limit,
        within=sum(head in first for head in heads) / len(heads),
    )


def mean_layer(heads: Sequence[Head]) -> float:
    """Mean layer of the heads, counted from 0."""
    return statistics.fmean(layer for layer, _ in heads)
