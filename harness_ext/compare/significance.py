"""Whether one row is better than another: paired tests over clusters, and many of them at once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from harness_ext.compare.board_cells import Answers

ALPHA = 0.05
# Up to here all sign vectors are tried; up to MOST so many are drawn, always the same.
EXACT, MOST = 14, 200
DRAWN = 20_000
# Sums of whole numbers up to here are counted through.
LARGEST = 10_000
_SEED = 0


def sign_flip_test(differences: Sequence[float]) -> float:
    """The two-sided p-value of the mean difference, by flipping the signs of clusters.

    Args:
        differences: one for each cluster, of what one row scores there minus the other.

    Under the hypothesis that nothing distinguishes the rows, each cluster's difference is as likely
    as its negative. p is the share of all 2^G sign vectors that give a mean as far from 0 as the
    observed one, G being the clusters that differ. Whole numbers, such as sums of 0-or-1 scores,
    have the exact p for any G. Others, for G above EXACT, have one estimated from DRAWN random
    vectors, (1 + as far) / (1 + DRAWN), always the same ones, and above MOST the sum is taken for
    normal. Where all answers are 0 or 1 and each cluster is one document, it is the exact McNemar
    test.

    Fisher's randomisation test; for estimated p-values: Phipson and Smyth, Statistical Applications
    in Genetics and Molecular Biology 9 (2010) 39.
    """
    changed = np.array([each for each in differences if each], dtype=np.float64)
    if not changed.size:
        return 1.0
    if all(each.is_integer() for each in changed) and np.abs(changed).sum() <= LARGEST:
        return _exact(np.abs(changed).astype(int), int(abs(changed.sum())))
    if changed.size > MOST:
        return math.erfc(abs(changed.sum()) / math.sqrt(2 * float(changed @ changed)))
    signs = _signs(changed.size) if changed.size <= EXACT else _drawn()[:, : changed.size]
    means = np.abs(signs @ changed)
    # Equal means may be rounded differently.
    far = int(np.count_nonzero(means >= abs(changed.sum()) * (1 - 1e-9)))
    if changed.size <= EXACT:
        return far / len(signs)
    return (1 + far) / (1 + len(signs))


def _exact(sizes: NDArray[np.int_], observed: int) -> float:
    """By the distribution of the sum of ±sizes, cluster by cluster."""
    shares = np.ones(1)
    for size in sizes:
        step = np.zeros(2 * size + 1)
        step[[0, -1]] = 0.5
        shares = np.convolve(shares, step)
    far = np.abs(np.arange(len(shares)) - len(shares) // 2) >= observed
    return min(1.0, float(shares[far].sum()))


def mcnemar_test(lost: int, gained: int) -> float:
    """The exact two-sided p-value that as many documents are lost as gained.

    Twice the smaller tail of a binomial distribution with share 1/2 (McNemar, Psychometrika 12
    (1947) 153); documents that both sides answer alike tell nothing.
    """
    return min(1.0, 2 * float(bdtr(min(lost, gained), lost + gained, 0.5)))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number (Holm, Scandinavian Journal of Statistics 6 (1979) 65).

    (The module of statsmodels that has it takes over a second to import.)
    """
    adjusted = [0.0] * len(p_values)
    most = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        most = max(most, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = most
    return adjusted


def differences(ours: Sequence[Answers], theirs: Sequence[Answers]) -> list[float] | None:
    """By cluster, what the first answers score above the second on the documents both have.

    Several tasks count alike, whatever the number of their documents; their clusters of one name
    are one. None where a task has no document in common.
    """
    found: dict[str, float] = defaultdict(float)
    for one, other in zip(ours, theirs, strict=True):
        # In a fixed order: the signs that are drawn belong to places.
        common = [document for document in one.means if document in other.means]
        if not common:
            return None
        for document in common:
            change = one.means[document] - other.means[document]
            found[one.clusters[document]] += change / len(common) / len(ours)
    return list(found.values())


@lru_cache(maxsize=EXACT)
def _signs(size: int) -> NDArray[np.float64]:
    """Every vector of signs."""
    bits = (np.arange(2**size)[:, None] >> np.arange(size)) & 1
    return np.asarray(2 * bits - 1, dtype=np.float64)


@lru_cache(maxsize=1)
def _drawn() -> NDArray[np.float64]:
    bits = np.random.default_rng(_SEED).integers(0, 2, (DRAWN, MOST))
    return np.asarray(2 * bits - 1, dtype=np.float64)
