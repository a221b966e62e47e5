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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from harness_ext.compare.board_columns import Column, task_column
from harness_ext.compare.evaluations import Evaluation, Sample
from harness_ext.compare.pairing import Pair, Pairing
from harness_ext.compare.significance import (
    ALPHA,
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

WORSE, TOLERATED, NONE, BETTER, NOT_COMPARABLE = (
    "worse", "within tolerance", "no difference shown", "better", "not comparable",
)  # fmt: skip
MCNEMAR = "exact McNemar"
EXACT_SIGNS = "exact sign flips of clusters"
DRAWN_SIGNS = f"{DRAWN:,} drawn sign flips of clusters"
MANY_SIGNS = "sign flips of clusters in the normal limit"


@dataclass(frozen=True)
class Limits:
    """What is accepted.

    Attributes:
        alpha: of the test, after Holm's correction.
        max_drop: by how much a task's mean may drop.
        per_task: the same for single tasks, by name or pattern; the last that fits is taken.
        max_changed: the share of answers, over all tasks, that may be other texts; None for any.
        allow_missing: whether a part of BASE may have no like in NEW.
    """

    alpha: float = ALPHA
    max_drop: float = 0.0
    per_task: Mapping[str, float] | None = None
    max_changed: float | None = None
    allow_missing: bool = False

    def of(self, task: str) -> float:
        """By how much the mean of a task may drop."""
        fitting = [drop for name, drop in (self.per_task or {}).items() if fnmatchcase(task, name)]
        return fitting[-1] if fitting else self.max_drop


@dataclass(frozen=True)
class Flip:
    """A document that one side answers better than the other."""

    evaluation: Evaluation
    base: Sample
    new: Sample
    change: float


@dataclass(frozen=True)
class Comparison:
    """A task on both sides.

    Attributes:
        pair: what is compared; metric: by which score.
        base, new: mean scores over the documents that both have.
        difference: NEW minus BASE where more is better, else BASE minus NEW: below 0 is worse.
        p_value, adjusted: of no difference, and after Holm's correction.
        test: which test it is.
        documents, clusters: what is compared; with several seeds a document counts once for each.
        unmatched: documents that only BASE, and that only NEW has.
        unscored: documents of both that either has no score of.
        answered, changed: of how many documents both answers are texts, and how many of these
            are other texts.
        flips: documents that are answered worse or better, worst first.
        outcome: what all this says; why: the reason why nothing can be compared.
    """

    pair: Pair
    metric: str = ""
    base: float = math.nan
    new: float = math.nan
    difference: Interval = Interval(math.nan, math.nan, math.nan)  # noqa: RUF009
    p_value: float = 1.0
    adjusted: float = 1.0
    test: str = ""
    documents: int = 0
    clusters: int = 0
    unmatched: tuple[int, int] = (0, 0)
    unscored: int = 0
    answered: int = 0
    changed: int = 0
    flips: tuple[Flip, ...] = ()
    outcome: str = NOT_COMPARABLE
    why: str = ""

    @property
    def lost(self) -> tuple[Flip, ...]:
        """Documents answered worse by NEW."""
        return tuple(flip for flip in self.flips if flip.change < 0)

    @property
    def gained(self) -> tuple[Flip, ...]:
        """Documents answered better by NEW."""
        return tuple(flip for flip in reversed(self.flips) if flip.change > 0)


@dataclass(frozen=True)
class Report:
    """All tasks, and what follows.

    needed: how many clusters have to get worse, none better, before a task of 0-or-1 scores can be
    significant where it is the only one of so many that gets worse. unread: files of either side
    that could not be used; what they hold may be what got worse.
    """

    pairing: Pairing
    limits: Limits
    comparisons: tuple[Comparison, ...]
    needed: int
    unread: int = 0

    @property
    def compared(self) -> tuple[Comparison, ...]:
        """Those that could be compared."""
        return tuple(each for each in self.comparisons if each.outcome != NOT_COMPARABLE)

    @property
    def incomparable(self) -> str:
        """Why nothing follows where nothing is worse; empty where something does."""
        if not self.compared:
            return "nothing could be compared"
        if self.limits.max_changed is not None and not self.answered:
            return "--max-changed has no answers to look at"
        missing = self.pairing.only_base or any(
            each.why or each.unmatched[0] or each.unscored for each in self.comparisons
        )
        if self.limits.allow_missing:
            return ""
        if missing:
            return "not all of BASE could be compared"
        return "not all files could be used" if self.unread else ""

    def least_drop(self, comparison: Comparison) -> float | None:
        """The least drop of 0-or-1 scores that can be significant; None if none can.

        It is that of one answer in each of `needed` clusters.
        """
        enough = comparison.clusters >= self.needed
        return self.needed / comparison.documents if enough else None

    @property
    def answered(self) -> int:
        """How many answers there are to look at; likelihoods of documents are none."""
        return sum(each.answered for each in self.compared)

    @property
    def changed(self) -> float:
        """The share of answers that are other texts."""
        changed = sum(each.changed for each in self.compared)
        return changed / self.answered if self.answered else 0.0

    @property
    def too_many_changed(self) -> bool:
        """Whether more answers are other texts than may be."""
        return self.limits.max_changed is not None and self.changed > self.limits.max_changed

    @property
    def regressed(self) -> bool:
        """Whether a task is worse, or too many answers are other texts."""
        return self.too_many_changed or any(each.outcome == WORSE for each in self.comparisons)


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
        where = "both sides" if not unscored else f"both sides with a score {column.metric}"
        return replace(found, why=f"no document is on {where}")
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
    p_value, test = _tested(sums.values(), _is_binary(column, flips))
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
