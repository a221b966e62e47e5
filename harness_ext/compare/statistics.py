"""Intervals for small sets of answers in which some answers belong together.

Answers of one cluster (the queries of one pair, in all draws and with all seeds) may depend on each
other; clusters are independent. Seeds are fixed: an interval says how the mean over these seeds
would vary with other queries, which it is averaged for first. The intervals for scores that lie
between bounds count a cluster or two more than there are, half of them at either extreme: without
them the few clusters that happen to agree would be taken for certainty.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import stdtr, stdtrit

LEVEL = 0.95
# Sums of scores such as 1/3 may pass their bound by this much.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its confidence interval; they are NaN where there is none."""

    estimate: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there is an interval beside the estimate."""
        return not math.isnan(self.low)


def accuracy_interval(
    right: Sequence[float], asked: Sequence[int], level: float = LEVEL
) -> Interval:
    """The share of right answers, with Wilson's score interval at the effective sample size.

    Scores between 0 and 1 may stand for right answers, such as F1: their variance is at most
    p(1−p), so that their interval is rather too wide.

    Args:
        right: the number of right answers, or the sum of the scores, in each cluster.
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
    if clusters < 2 or any(n < 1 or not 0 <= k <= n + _ROUNDING for k, n in counts):
        raise ValueError(f"no counts of right answers in 2 clusters or more: {counts}")
    total = sum(asked)
    size = total / clusters
    p = (sum(right) + size / 2) / (total + size)
    squares = sum((k - p * n) ** 2 for k, n in counts) + size**2 * ((1 - p) ** 2 + p**2) / 2
    design_effect = squares * (clusters + 1) / clusters / (total + size) / (p * (1 - p))
    most = sum(n**2 for n in asked) / total
    effective = total / min(max(design_effect, 1.0), most)
    return _wilson(min(sum(right) / total, 1.0), effective, _critical(clusters, level))


def reported_interval(
    mean: float, stderr: float | None, documents: int, is_share: bool, level: float = LEVEL
) -> Interval:
    """A mean of which no more is known than its standard error and the number of documents.

    A share has Wilson's interval at the sample size that would give this error, p(1−p)/stderr², at
    most the number of documents, which also stands where the error is 0 or not told. Other scores
    have Student's. Degrees of freedom are those of the documents; there is no interval where what
    it takes is not known.
    """
    if documents < 2 or (stderr is None and not is_share):
        return Interval(mean, math.nan, math.nan)
    critical = _critical(documents, level)
    if not is_share:
        half = critical * (stderr or 0.0)
        return Interval(mean, mean - half, mean + half)
    variance = mean * (1 - mean)
    size = min(documents, variance / stderr**2) if stderr and variance > 0 else documents
    return _wilson(mean, size, critical)


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
    centre, error = _adjusted(values, bound)
    half = _critical(len(values), level) * error
    return Interval(fmean(values), max(-bound, centre - half), min(bound, centre + half))


def mean_p_value(values: Sequence[float], bound: float = 1.0) -> float:
    """The two-sided p-value of a mean of 0 that belongs to `mean_interval`.

    It is below 1 − level exactly where the interval of that level does not hold 0. Arguments and
    errors are those of `mean_interval`.
    """
    centre, error = _adjusted(values, bound)
    return 2 * float(stdtr(len(values) - 1, -abs(centre) / error))


def _adjusted(values: Sequence[float], bound: float) -> tuple[float, float]:
    """Centre and standard error of `mean_interval`, with one cluster more."""
    clusters = len(values)
    if clusters < 2 or any(abs(value) > bound + _ROUNDING for value in values):
        raise ValueError(f"no 2 values or more within ±{bound}: {values}")
    centre = sum(values) / (clusters + 1)
    extremes = ((1 - centre) ** 2 + (1 + centre) ** 2) / 2
    squares = sum((value - centre) ** 2 for value in values) + extremes
    return centre, math.sqrt(squares / clusters / (clusters + 1))


def task_mean_interval(
    tasks: Sequence[Sequence[tuple[float, int]]],
    extremes: tuple[float, float] | None = (0.0, 1.0),
    level: float = LEVEL,
    names: Sequence[Sequence[Hashable]] | None = None,
) -> Interval:
    """The mean over tasks of the mean score of a task, each task counting once.

    Args:
        tasks: for each task its clusters, each with the sum and the number of its scores.
        extremes: the least and the greatest score: (0, 1) for answers, (−1, 1) for differences;
            None where scores have no bounds.
        level: nominal coverage.
        names: of the clusters of each task: clusters of one name in several tasks are one, such as
            a pair of words that several tasks ask for. By default no two are.

    Tasks that share clusters make one stratum; strata are fixed and independent. With clusters of
    sums s_tg over n_tg scores, N_t = Σ_g n_tg, c_t = Σ_g s_tg / N_t and G different clusters in a
    stratum, the sum of its means has the variance

        v = G/(G−1) · Σ_g (Σ_t (s_tg − c_t·n_tg) / N_t)²,

    the mean over T tasks has Σ v / T², and the interval is Student's with Welch's and
    Satterthwaite's degrees of freedom, (Σ v)² / Σ (v² / (G − 1)). Ratio and variance: Cochran,
    Sampling Techniques (1977), chapters 5 and 6. Degrees of freedom: Satterthwaite, Biometrics
    Bulletin 2 (1946) 110.

    With extremes, c_t and v are computed with 2/T clusters more in each task, of average size, half
    of them at either extreme: two in all, as in the adjusted Wald intervals for one share (Agresti
    and Coull, The American Statistician 52 (1998) 119) and for a paired difference (Bonett and
    Price, J. Educational and Behavioral Statistics 37 (2012) 479). The estimate itself is the plain
    mean. With one cluster more, as in `mean_interval`, differences that are rare and all of one
    sign are covered too rarely (0.87 where two answers in 450 are expected to differ).

    Raises:
        ValueError: no task, one with fewer than 2 clusters, or a sum beyond the extremes.
    """
    low, high = extremes or (-math.inf, math.inf)
    if not tasks or any(len(clusters) < 2 for clusters in tasks):
        raise ValueError(f"no tasks with 2 clusters or more: {tasks}")
    if any(
        n < 1 or not low * n - _ROUNDING <= s <= high * n + _ROUNDING
        for clusters in tasks
        for s, n in clusters
    ):
        raise ValueError(f"sums of scores beyond {extremes}: {tasks}")
    if names is None:
        names = [[(task, g) for g in range(len(own))] for task, own in enumerate(tasks)]
    extra = 1 / len(tasks) if extremes else 0.0
    parts = [
        _part(clusters, own, extra, extremes or (0.0, 0.0))
        for clusters, own in zip(tasks, names, strict=True)
    ]
    variances, freedoms = [], []
    for stratum in _strata([part.deviations for part in parts]):
        sums: dict[Hashable, float] = defaultdict(float)
        for task in stratum:
            for name, deviation in parts[task].deviations.items():
                sums[name] += deviation
        count = len(sums) + 2 * extra * len(stratum)
        squares = sum(value**2 for value in sums.values()) + sum(parts[t].spread for t in stratum)
        variances.append(squares * count / (count - 1))
        freedoms.append(len(sums) - 1)
    centre, estimate = fmean(p.centre for p in parts), fmean(p.estimate for p in parts)
    if not any(variances):
        return Interval(estimate, estimate, estimate)
    freedom = sum(variances) ** 2 / sum(
        variance**2 / own for variance, own in zip(variances, freedoms, strict=True)
    )
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(sum(variances)) / len(tasks)
    return Interval(estimate, max(low, centre - half), min(high, centre + half))


def combined_interval(tasks: Sequence[Interval]) -> Interval:
    """The mean over independent tasks of which only intervals are known.

    Its lower end is mean − √Σ(estimate − low)² / T, its upper end mean + √Σ(high − estimate)² / T:
    the method of variance estimates recovery (Zou and Donner, Statistics in Medicine 27 (2008)
    1693), which keeps what the tasks' intervals do near 0 and 1. It has no ends where one of the
    tasks has none.
    """
    estimate = fmean(task.estimate for task in tasks)
    below = math.sqrt(sum((task.estimate - task.low) ** 2 for task in tasks)) / len(tasks)
    above = math.sqrt(sum((task.high - task.estimate) ** 2 for task in tasks)) / len(tasks)
    return Interval(estimate, estimate - below, estimate + above)


@dataclass(frozen=True)
class _Part:
    """What a task adds to a mean over tasks.

    deviations: (s − c·n) / N of each cluster. spread: the squares of those added at the extremes.
    """

    estimate: float
    centre: float
    deviations: dict[Hashable, float]
    spread: float


def _part(
    clusters: Sequence[tuple[float, int]],
    names: Sequence[Hashable],
    extra: float,
    extremes: tuple[float, float],
) -> _Part:
    """A task with `extra` clusters more at either extreme."""
    total, asked = map(sum, zip(*clusters, strict=True))
    size, count = asked / len(clusters), len(clusters) + 2 * extra
    centre = (total + extra * size * sum(extremes)) / (size * count)
    deviations: dict[Hashable, float] = defaultdict(float)
    for (s, n), name in zip(clusters, names, strict=True):
        deviations[name] += (s - centre * n) / (size * count)
    spread = extra * sum((extreme - centre) ** 2 for extreme in extremes) / count**2
    return _Part(total / asked, centre, deviations, spread)


def _strata(tasks: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """The tasks by number, those together that share a cluster, directly or through others."""
    strata: list[tuple[set[Hashable], list[int]]] = []
    for number, names in enumerate(tasks):
        joined, members = set(names), [number]
        for stratum in [each for each in strata if each[0] & joined]:
            strata.remove(stratum)
            joined |= stratum[0]
            members = stratum[1] + members
        strata.append((joined, members))
    return [members for _, members in strata]


def _critical(clusters: int, level: float) -> float:
    return float(stdtrit(clusters - 1, (1 + level) / 2))


def _wilson(p: float, n: float, z: float) -> Interval:
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return Interval(p, max(0.0, centre - half), min(1.0, centre + half))
