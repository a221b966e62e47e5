"""Whether NEW is worse than BASE: paired by document, task by task.

A task regresses where two things hold: its mean drops by more than the tolerance, and the drop is
significant after Holm's correction over all tasks compared. The first says that it matters, the
second that it is no accident of so few documents. The test is against no difference at all, also
with a tolerance: against the tolerance, a drop of twice as much would mostly pass where documents
are few. What it costs: where documents are many, a task whose true drop is just the tolerance is
called worse about every other time.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from harness_ext.compare.board_columns import Column, task_column
from harness_ext.compare.evaluations import Evaluation, Sample
from harness_ext.compare.pairing import Pair, Pairing
from harness_ext.compare.report import (
    BETTER,
    NONE,
    TOLERATED,
    WORSE,
    Comparison,
    Flip,
    Limits,
    Report,
)
from harness_ext.compare.significance import (
    DRAWN,
    EXACT,
    LARGEST,
    MOST,
    holm,
    mcnemar_test,
    sign_flip_test,
)
from harness_ext.compare.statistics import Interval, task_mean_interval
from harness_ext.errors import UsageError

MCNEMAR = "exact McNemar"
EXACT_SIGNS = "exact sign flips of clusters"
DRAWN_SIGNS = f"{DRAWN:,} drawn sign flips of clusters"
MANY_SIGNS = "sign flips of clusters in the normal limit"


def compare(pairing: Pairing, limits: Limits, metric: str | None = None) -> Report:
    """Compare what is on both sides.

    metric: instead of each task's usual one. Raises :class:`UsageError` where a task that the
    tolerances name is not compared.
    """
    _check_tolerances(limits, pairing.pairs)
    found = [_compare(pair, metric) for pair in pairing.pairs]
    held = [number for number, each in enumerate(found) if not each.why]
    adjusted = holm([found[number].p_value for number in held])
    for number, p_value in zip(held, adjusted, strict=True):
        each = replace(found[number], adjusted=p_value)
        found[number] = replace(each, outcome=_outcome(each, limits))
    # The least k with 2 · 2^-k · tasks below alpha.
    needed = math.floor(math.log2(2 * max(1, len(held)) / limits.alpha)) + 1
    return Report(pairing, limits, tuple(found), needed)


def _check_tolerances(limits: Limits, pairs: Iterable[Pair]) -> None:
    tasks = {pair.task for pair in pairs}
    for name in limits.per_task or {}:
        if not any(fnmatchcase(task, name) for task in tasks):
            raise UsageError(
                f"--per-task names {name}, which is not compared. Compared: "
                f"{', '.join(sorted(tasks)) or 'nothing'}."
            )


def _outcome(comparison: Comparison, limits: Limits) -> str:
    if not comparison.adjusted < limits.alpha:
        return NONE
    change = comparison.difference.estimate
    if change > 0:
        return BETTER
    # A drop of exactly the tolerance is within it, however it was rounded.
    return WORSE if -change > limits.of(comparison.pair.task) + 1e-12 else TOLERATED


def _compare(pair: Pair, metric: str | None) -> Comparison:
    both = [each for evaluations in pair.evaluations for each in evaluations]
    column = task_column(pair.task, both, metric)
    if column is None or any(column.metric not in each.metrics for each in both):
        return Comparison(pair, why=f"no score {metric or 'that both sides have'}")
    matched: list[tuple[Evaluation, Sample, Sample]] = []
    unmatched = Counter[int]()
    unscored = 0
    for base, new in pair.evaluations:
        for side, each in (("BASE", base), ("NEW", new)):
            if each.samples is None:
                return Comparison(
                    pair, column.metric, why=f"no usable samples in {side} ({each.path})"
                )
        ours, theirs = ({one.doc_hash: one for one in each.samples or ()} for each in (base, new))
        unmatched += Counter({0: len(ours.keys() - theirs), 1: len(theirs.keys() - ours)})
        common = [(new, one, theirs[name]) for name, one in ours.items() if name in theirs]
        scored = [each for each in common if _scored(column, *each[1:])]
        unscored += len(common) - len(scored)
        matched += scored
    found = Comparison(
        pair, column.metric, unmatched=(unmatched[0], unmatched[1]), unscored=unscored
    )
    if not matched:
        if unscored:
            return replace(found, why=f"no document has {column.metric} of its own on both sides")
        return replace(found, why="no document is on both sides")
    return _compared(found, column, matched)


def _scored(column: Column, *samples: Sample) -> bool:
    return all(column.metric in sample.scores for sample in samples)


def _compared(
    found: Comparison, column: Column, matched: Sequence[tuple[Evaluation, Sample, Sample]]
) -> Comparison:
    sign = 1 if column.higher_is_better else -1
    flips = [
        Flip(each, base, new, sign * (new.scores[column.metric] - base.scores[column.metric]))
        for each, base, new in matched
    ]
    sums: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for flip in flips:
        total, count = sums[flip.base.cluster]
        sums[flip.base.cluster] = (total + flip.change, count + 1)
    answers = [
        (one.answered(column.metric), two.answered(column.metric)) for _, one, two in matched
    ]
    told = [both for both in answers if None not in both]
    is_binary = _is_binary(column, flips)
    p_value, test = _tested(sums.values(), is_binary)
    mean = math.fsum(flip.change for flip in flips) / len(flips)
    return replace(
        found,
        base=_mean(flip.base.scores[column.metric] for flip in flips),
        new=_mean(flip.new.scores[column.metric] for flip in flips),
        difference=task_mean_interval(
            [list(sums.values())], extremes=(-1, 1) if column.is_share else None
        )
        if len(sums) > 1
        else Interval(mean, math.nan, math.nan),
        p_value=p_value,
        adjusted=p_value,
        test=test,
        is_binary=is_binary,
        documents=len(flips),
        clusters=len(sums),
        answered=len(told),
        changed=sum(base != new for base, new in told),
        flips=tuple(sorted((f for f in flips if f.change), key=lambda flip: flip.change)),
        outcome=NONE,
    )


def _tested(clusters: Collection[tuple[float, int]], is_binary: bool) -> tuple[float, str]:
    """The p-value of no difference, and which test it is of; clusters as sum and number."""
    sums = [total for total, _ in clusters if total]
    if is_binary and all(count == 1 for _, count in clusters):
        lost = sum(total < 0 for total in sums)
        return mcnemar_test(lost, len(sums) - lost), MCNEMAR
    whole = all(total.is_integer() for total in sums) and sum(map(abs, sums)) <= LARGEST
    if whole or len(sums) <= EXACT:
        return sign_flip_test(sums), EXACT_SIGNS
    return sign_flip_test(sums), DRAWN_SIGNS if len(sums) <= MOST else MANY_SIGNS


def _is_binary(column: Column, flips: Sequence[Flip]) -> bool:
    return all(
        sample.scores[column.metric] in (0, 1) for flip in flips for sample in (flip.base, flip.new)
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)
