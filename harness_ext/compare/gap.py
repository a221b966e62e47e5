"""The bijection gap: how much harder a map is both ways at once than one way at a time.

A task vector acts as a one-shot, rank-one predictor: it can carry X→Y and Y→X, but not the joined
map X↔Y, except for identity and negation (Dong et al. 2026, arXiv 2506.09048). A model may fail the
joined map anyway, so what counts is how much wider the gap is with a task vector than with
in-context learning (ICL).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness_ext.compare.runs import Answer, Run
from harness_ext.compare.statistics import Interval, accuracy_interval, mean_interval
from harness_ext.errors import UsageError

SCORE = "answer_match"
DIRECTIONS = ("forward", "inverse", "bijection")


@dataclass(frozen=True)
class WordMap:
    """A map between words, its directions being tasks: forward X→Y, inverse Y→X, bijection X↔Y."""

    name: str
    has_inverse: bool = True

    @property
    def one_way(self) -> tuple[str, ...]:
        """The tasks that ask in one direction."""
        names = DIRECTIONS[:2] if self.has_inverse else DIRECTIONS[:1]
        return tuple(f"{direction}_{self.name}" for direction in names)

    @property
    def both_ways(self) -> str:
        """The task that asks in both directions."""
        return f"bijection_{self.name}"

    @property
    def tasks(self) -> tuple[str, ...]:
        """All its tasks."""
        return (*self.one_way, self.both_ways)


# The antonym of y is x: its inverse is the same task.
MAPS = (
    WordMap("upper"),
    WordMap("gerund"),
    WordMap("plural"),
    WordMap("french"),
    WordMap("antonym", has_inverse=False),
)


@dataclass(frozen=True)
class GapChange:
    """The gaps of a map under ICL and with a task vector, and the second minus the first."""

    pairs: int
    icl: Interval
    tv: Interval
    difference: Interval

    @property
    def verdict(self) -> str:
        """What the interval of the difference shows."""
        if self.difference.low > 0:
            return "wider with TV"
        if self.difference.high < 0:
            return "narrower with TV"
        return "no difference shown"


def clusters(answers: Sequence[Answer]) -> list[list[Answer]]:
    """The answers to a task by pair: the queries of a pair and their draws belong together.

    Raises :class:`UsageError` where fewer than two pairs are tested.
    """
    pairs: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        pairs[answer.pair].append(answer)
    if len(pairs) < 2:
        raise UsageError(
            f"{answers[0].task} was run on {len(pairs)} pair: there is no interval for fewer "
            "than 2. Run it without --limit."
        )
    return list(pairs.values())


def accuracy(answers: Sequence[Answer]) -> Interval:
    """The share of right answers to a task. A cluster is a pair: its queries and their draws.

    Raises :class:`UsageError` where fewer than two pairs are tested.
    """
    pairs = clusters(answers)
    return accuracy_interval(
        [sum(answer.scores[SCORE] for answer in pair) for pair in pairs], [len(p) for p in pairs]
    )


def gap_by_pair(run: Run, word_map: WordMap) -> dict[str, float]:
    """For each pair, its mean accuracy one way minus its accuracy in the bijection.

    Draws are averaged for each query first, then the queries of a pair. The run must hold all
    tasks of the map. Raises :class:`UsageError` where they do not test the same pairs.
    """
    one_way = [_by_pair(run.answers[task]) for task in word_map.one_way]
    both_ways = _by_pair(run.answers[word_map.both_ways])
    for task, scores in zip(word_map.one_way, one_way, strict=True):
        places = {_place(run, task): scores, _place(run, word_map.both_ways): both_ways}
        _check_same("pairs", places)
    return {
        pair: fmean(scores[pair] for scores in one_way) - score for pair, score in both_ways.items()
    }


def gap_change(icl: Run, tv: Run, word_map: WordMap) -> GapChange:
    """How the gap of a map changes from ICL to a task vector, paired by pair.

    All intervals are over pairs, whose x and y queries in all tasks make one cluster. Raises
    :class:`UsageError` where the two runs do not answer the same documents.
    """
    for task in word_map.tasks:
        check_same_documents(task, (icl, tv))
    before, after = gap_by_pair(icl, word_map), gap_by_pair(tv, word_map)
    return GapChange(
        pairs=len(before),
        icl=mean_interval(list(before.values())),
        tv=mean_interval(list(after.values())),
        difference=mean_interval([after[pair] - before[pair] for pair in before], bound=2),
    )


def check_same_documents(task: str, runs: Sequence[Run]) -> None:
    """Raise :class:`UsageError` where the runs, all of which hold the task, differ in documents."""
    for run in runs[1:]:
        both = (runs[0], run)
        places = {_place(one, task): [a.doc_hash for a in one.answers[task]] for one in both}
        _check_same("documents", places)


def _by_pair(answers: Sequence[Answer]) -> dict[str, float]:
    draws: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        draws[answer.pair][answer.side].append(answer.scores[SCORE])
    return {pair: fmean(map(fmean, sides.values())) for pair, sides in draws.items()}


def _place(run: Run, task: str) -> str:
    return f"{task} in {run.cell.folder}"


def _check_same(what: str, sides: Mapping[str, Collection[str]]) -> None:
    (first, ours), (second, theirs) = sides.items()
    only = set(ours) ^ set(theirs)
    if only:
        raise UsageError(
            f"{first} and {second} do not test the same {what}: {len(only)} are in one of them "
            f"only, such as {min(only)}. Run and record both with the same version of the tasks, "
            "without --limit."
        )
