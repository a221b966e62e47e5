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

from harness_ext.compare.board_cells import Answers
from harness_ext.compare.significance import ALPHA
from harness_ext.compare.statistics import (
    Interval,
    mean_interval,
    mean_p_value,
    task_mean_interval,
)

SCORE = "answer_match"
DIRECTIONS = ("forward", "inverse", "bijection")
SHOWS, NOT_SHOWN, OTHER_WAY = "shows", "does not show", "the other way"
ONE_WAY = DIRECTIONS[:2]
# Maps with fewer tasks one way: the antonym of y is x, so that its inverse is the same task, and
# the copy of x is x, so that the joined task is all there is.
FEWER: Mapping[str, tuple[str, ...]] = {"antonym": ONE_WAY[:1], "copy": ()}


@dataclass(frozen=True)
class WordMap:
    """A map between words, its directions being tasks: forward X→Y, inverse Y→X, bijection X↔Y."""

    name: str

    @property
    def one_way(self) -> tuple[str, ...]:
        """The tasks that ask in one direction."""
        return tuple(f"{direction}_{self.name}" for direction in FEWER.get(self.name, ONE_WAY))

    @property
    def both_ways(self) -> str:
        """The task that asks in both directions."""
        return f"bijection_{self.name}"

    @property
    def tasks(self) -> tuple[str, ...]:
        """All its tasks."""
        return (*self.one_way, self.both_ways)


@dataclass(frozen=True)
class GapChange:
    """The gaps of a map under ICL and with a task vector, and the second minus the first.

    Attributes:
        pairs: of words that are in all tasks of the map.
        icl, tv, difference: means over pairs, all three over the same pairs and documents.
        left_out: how many documents are not in both settings, and pairs not in all tasks.
        gaps: of each pair, under ICL and with a task vector.
        p_value: that the difference is none: the test that belongs to its interval.
    """

    pairs: int
    icl: Interval
    tv: Interval
    difference: Interval
    left_out: int
    gaps: tuple[Mapping[str, float], Mapping[str, float]]
    p_value: float

    @property
    def changes(self) -> dict[str, float]:
        """The difference of each pair."""
        before, after = self.gaps
        return {pair: after[pair] - before[pair] for pair in before}


def maps_of(tasks: Collection[str]) -> list[WordMap]:
    """The maps of which the joined task is among the tasks, by name."""
    prefix = f"{DIRECTIONS[2]}_"
    names = sorted(task.removeprefix(prefix) for task in tasks if task.startswith(prefix))
    return [WordMap(name) for name in names]


def gap_change(
    icl: Mapping[str, Answers], tv: Mapping[str, Answers], word_map: WordMap
) -> GapChange | None:
    """How the gap of a map changes from ICL to a task vector, paired by pair of words.

    The settings hold the answers by task, averaged over seeds. Documents that are not in both are
    left out of both, then pairs that are not in all tasks. A pair's score in a task is the mean
    over its queries of the mean over their draws; its gap is the mean of its scores one way minus
    its score both ways. None for a map without tasks one way, where a setting lacks a task, and
    where fewer than two pairs are left.
    """
    if not word_map.one_way or not all(task in own for own in (icl, tv) for task in word_map.tasks):
        return None
    scores: list[dict[str, dict[str, float]]] = [{}, {}]
    asked, common = 0, 0
    for task in word_map.tasks:
        documents = icl[task].means.keys() & tv[task].means.keys()
        common += len(documents)
        asked += len(icl[task].means.keys() | tv[task].means.keys())
        for found, setting in zip(scores, (icl, tv), strict=True):
            found[task] = _by_pair(setting[task], documents)
    every = [{*own[task]} for own in scores for task in word_map.tasks]
    pairs = sorted(set.intersection(*every))
    if len(pairs) < 2:
        return None
    before, after = ({pair: _gap(own, word_map, pair) for pair in pairs} for own in scores)
    changes = [after[pair] - before[pair] for pair in pairs]
    return GapChange(
        pairs=len(pairs),
        icl=mean_interval(list(before.values())),
        tv=mean_interval(list(after.values())),
        difference=mean_interval(changes, bound=2),
        left_out=asked - common + len(set.union(*every)) - len(pairs),
        gaps=(before, after),
        p_value=mean_p_value(changes, bound=2),
    )


def mean_change(changes: Sequence[GapChange]) -> tuple[Interval, Interval, Interval]:
    """Means over maps of gap(ICL), gap(TV) and their difference, each map counting once."""

    def mean(maps: Sequence[Mapping[str, float]], bound: float) -> Interval:
        return task_mean_interval(
            [[(value, 1) for value in own.values()] for own in maps],
            extremes=(-bound, bound),
            names=[list(own) for own in maps],
        )

    return (
        mean([change.gaps[0] for change in changes], 1),
        mean([change.gaps[1] for change in changes], 1),
        mean([change.changes for change in changes], 2),
    )


def verdict(difference: Interval, p_value: float | None = None) -> str:
    """What a difference says of the claim that gaps are wider with a task vector.

    p_value: adjusted for the number of maps; without it the interval alone decides.
    """
    is_shown = p_value < ALPHA if p_value is not None else difference.low > 0 or difference.high < 0
    if not is_shown:
        return NOT_SHOWN
    return SHOWS if difference.estimate > 0 else OTHER_WAY


def _gap(scores: Mapping[str, Mapping[str, float]], word_map: WordMap, pair: str) -> float:
    return fmean(scores[task][pair] for task in word_map.one_way) - scores[word_map.both_ways][pair]


def _by_pair(answers: Answers, documents: Collection[str]) -> dict[str, float]:
    draws: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for document in sorted(documents):
        pair, query = answers.clusters[document], answers.queries[document]
        draws[pair][query].append(answers.means[document])
    return {pair: fmean(map(fmean, queries.values())) for pair, queries in draws.items()}
