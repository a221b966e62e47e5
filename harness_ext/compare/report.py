"""What a comparison of two sides finds, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness_ext.compare.evaluations import Evaluation, Sample
from harness_ext.compare.pairing import Pair, Pairing
from harness_ext.compare.significance import ALPHA
from harness_ext.compare.statistics import Interval

WORSE, TOLERATED, NONE, BETTER, NOT_COMPARABLE = (
    "worse", "within tolerance", "no difference shown", "better", "not comparable",
)  # fmt: skip


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
        test: which test it is; is_binary: whether all scores are 0 or 1.
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
    is_binary: bool = False
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
    def evaluations(self) -> list[tuple[Evaluation, Evaluation]]:
        """Those that stand against each other, of all tasks."""
        return [both for each in self.comparisons for both in each.pair.evaluations]

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
        enough = comparison.is_binary and comparison.clusters >= self.needed
        return self.needed / comparison.documents if enough else None

    @property
    def answered(self) -> int:
        """How many answers there are to look at; likelihoods of documents are none."""
        return sum(each.answered for each in self.compared)

    @property
    def changed(self) -> float | None:
        """The share of answers that are other texts; None where there are no answers."""
        changed = sum(each.changed for each in self.compared)
        return changed / self.answered if self.answered else None

    @property
    def too_many_changed(self) -> bool:
        """Whether more answers are other texts than may be."""
        most, changed = self.limits.max_changed, self.changed
        return most is not None and changed is not None and changed > most

    @property
    def regressed(self) -> bool:
        """Whether a task is worse, or too many answers are other texts."""
        return self.too_many_changed or any(each.outcome == WORSE for each in self.comparisons)
