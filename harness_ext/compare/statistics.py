"""Intervals for small sets of 0/1 answers in which some answers belong together.

Answers of one cluster (the queries and draws of one pair) may depend on each other; clusters are
independent. The intervals count a cluster or two more than there are, half of them at either
extreme: without them the few clusters that happen to agree would be taken for certainty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import stdtrit

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its confidence interval."""

    estimate: float
    low: float
    high: float


def accuracy_interval(right: Sequence[int], asked: Sequence[int], level: float = LEVEL) -> Interval:
    """The share of right answers, with Wilson's score interval at the effective sample size.

    Args:
        right: the number of right answers in each cluster.
        asked: the number of answers in each cluster, at least 1.
        level: nominal coverage.

    With N answers in G clusters the design effect is the ratio of the variance of the mean
    estimated from whole clusters, Σ_g (right_g − p·asked_g)² · G/(G−1) / N², to p(1−p)/N. It is
    estimated with one cluster more, of average size, half of it all right and half all wrong, and
    is kept between 1 (answers independent) and Σ_g asked_g²/N (one answer per cluster tells all);
    N divided by it is the effective sample size. The critical value is Student's t with G−1
    degrees of freedom.

    Score interval: Wilson, JASA 22 (1927) 209. Effective sample sizes in it for clustered data:
    Korn and Graubard, Survey Methodology 24 (1998) 193; Franco, Little, Louis and Slud, J. Survey
    Statistics and Methodology 7 (2019) 334. The extra cluster is the usual extra success and
    failure (Agresti and Coull, The American Statistician 52 (1998) 119), taken for clusters.

    Raises:
        ValueError: fewer than 2 clusters, or counts that do not fit together.
    """
    clusters, counts = len(asked), list(zip(right, asked, strict=True))
    if clusters < 2 or any(n < 1 or not 0 <= k <= n for k, n in counts):
        raise ValueError(f"no counts of right answers in 2 clusters or more: {counts}")
    total = sum(asked)
    size = total / clusters
    p = (sum(right) + size / 2) / (total + size)
    squares = sum((k - p * n) ** 2 for k, n in counts) + size**2 * ((1 - p) ** 2 + p**2) / 2
    design_effect = squares * (clusters + 1) / clusters / (total + size) / (p * (1 - p))
    most = sum(n**2 for n in asked) / total
    effective = total / min(max(design_effect, 1.0), most)
    return _wilson(sum(right) / total, effective, _critical(clusters, level))


def mean_interval(values: Sequence[float], bound: float = 1.0, level: float = LEVEL) -> Interval:
    """The mean of one value per cluster, with an interval for it.

    Args:
        values: differences of shares, one for each cluster.
        bound: no value, and neither end of the interval, lies beyond ±bound.
        level: nominal coverage.

    Student's t interval after one more cluster has been counted, half of it at −1 and half at +1:
    the extra discordant pair of Agresti and Min (Statistics in Medicine 24 (2005) 729). The
    estimate itself is the plain mean; the interval's centre lies a little nearer to 0.

    Where most values are equal, as when nearly all answers are right, the plain t interval and the
    percentile and BCa bootstraps have a width near 0 and cover far too rarely.

    Raises:
        ValueError: fewer than 2 values, or one beyond the bound.
    """
    clusters = len(values)
    if clusters < 2 or any(abs(value) > bound for value in values):
        raise ValueError(f"no 2 values or more within ±{bound}: {values}")
    centre = sum(values) / (clusters + 1)
    extremes = ((1 - centre) ** 2 + (1 + centre) ** 2) / 2
    squares = sum((value - centre) ** 2 for value in values) + extremes
    half = _critical(clusters, level) * math.sqrt(squares / clusters / (clusters + 1))
    return Interval(sum(values) / clusters, max(-bound, centre - half), min(bound, centre + half))


def task_mean_interval(
    tasks: Sequence[Sequence[tuple[float, int]]],
    extremes: tuple[float, float] = (0.0, 1.0),
    level: float = LEVEL,
) -> Interval:
    """The mean over tasks of the mean score of a task, each task counting once.

    Args:
        tasks: for each task its clusters, each with the sum and the number of its scores.
        extremes: the least and the greatest score: (0, 1) for answers, (−1, 1) for differences.
        level: nominal coverage.

    The tasks are fixed and independent strata. With G clusters of sums s_g over n_g scores, the
    mean c = Σ s_g / Σ n_g of task t has the variance of a mean over clusters,

        v_t = G/(G−1) · Σ_g (s_g − c·n_g)² / (Σ_g n_g)²,

    the mean over T tasks has Σ_t v_t / T², and the interval is Student's with Welch's and
    Satterthwaite's degrees of freedom, (Σ_t v_t)² / Σ_t (v_t² / (G_t − 1)). Ratio and variance:
    Cochran, Sampling Techniques (1977), chapters 5 and 6. Degrees of freedom: Satterthwaite,
    Biometrics Bulletin 2 (1946) 110.

    c and v_t are computed with 2/T clusters more in each task, of average size, half of them at
    either extreme: two in all, as in the adjusted Wald intervals for one share (Agresti and Coull,
    The American Statistician 52 (1998) 119) and for a paired difference (Bonett and Price,
    J. Educational and Behavioral Statistics 37 (2012) 479). The estimate itself is the plain mean.
    With one cluster more, as in `mean_interval`, differences that are rare and all of one sign are
    covered too rarely (0.87 where two answers in 450 are expected to differ).

    Raises:
        ValueError: no task, one with fewer than 2 clusters, or a sum beyond the extremes.
    """
    low, high = extremes
    if not tasks or any(len(clusters) < 2 for clusters in tasks):
        raise ValueError(f"no tasks with 2 clusters or more: {tasks}")
    if any(n < 1 or not low * n <= s <= high * n for clusters in tasks for s, n in clusters):
        raise ValueError(f"sums of scores beyond {extremes}: {tasks}")
    extra = 1 / len(tasks)
    estimates, centres, variances = [], [], []
    for clusters in tasks:
        total, asked = map(sum, zip(*clusters, strict=True))
        size, count = asked / len(clusters), len(clusters) + 2 * extra
        centre = (total + extra * size * (low + high)) / (asked + 2 * extra * size)
        squares = sum((s - centre * n) ** 2 for s, n in clusters)
        squares += extra * size**2 * ((low - centre) ** 2 + (high - centre) ** 2)
        estimates.append(total / asked)
        centres.append(centre)
        variances.append(squares * count / (count - 1) / (size * count) ** 2)
    freedom = sum(variances) ** 2 / sum(
        variance**2 / (len(clusters) - 1)
        for variance, clusters in zip(variances, tasks, strict=True)
    )
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(sum(variances)) / len(tasks)
    centre = fmean(centres)
    return Interval(fmean(estimates), max(low, centre - half), min(high, centre + half))


def _critical(clusters: int, level: float) -> float:
    return float(stdtrit(clusters - 1, (1 + level) / 2))


def _wilson(p: float, n: float, z: float) -> Interval:
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return Interval(p, max(0.0, centre - half), min(1.0, centre + half))
