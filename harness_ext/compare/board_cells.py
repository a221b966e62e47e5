"""One cell of a leaderboard: a row's answers to a task, with all seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from harness_ext.compare.board_columns import Column
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.statistics import (
    Interval,
    accuracy_interval,
    combined_interval,
    reported_interval,
    task_mean_interval,
)

NO_SAMPLES = "from the mean and standard error in the results file, as it has no usable samples"
NOT_THEIR_MEAN = (
    "from the mean and standard error in the results file, which is no mean of its samples' scores"
)
FEW = "no interval, for fewer than 2 clusters"


@dataclass(frozen=True)
class Score:
    """What a row scores in a column.

    Attributes:
        interval: the mean with its 95 % interval; the ends are NaN where there is none.
        documents, clusters: what the mean is over; 0 where it is not known.
        seeds: of the draws of demonstrations that are averaged, as far as they are told.
        best: whether it is significantly better than every other row in the column.
        note: what has to be known about it; empty where there is nothing.
    """

    interval: Interval
    documents: int
    clusters: int
    seeds: tuple[int, ...]
    best: bool = False
    note: str = ""


@dataclass(frozen=True)
class Answers:
    """The scores of a task's documents, averaged over seeds.

    Attributes:
        means: by document, over the seeds with which it was asked.
        clusters, queries: the cluster and the query of each document.
        counts: with how many seeds each document was asked.
    """

    means: Mapping[str, float]
    clusters: Mapping[str, str]
    queries: Mapping[str, str]
    counts: Mapping[str, int]

    def sums(self) -> dict[str, tuple[float, int]]:
        """By cluster, the sum and the number of its scores, all seeds together."""
        found: dict[str, tuple[float, int]] = {}
        for document, mean in self.means.items():
            name, count = self.clusters[document], self.counts[document]
            total, asked = found.get(name, (0.0, 0))
            found[name] = (total + mean * count, asked + count)
        return found


@dataclass(frozen=True)
class Cell:
    """A row's evaluations of a task, which differ in the seed alone, by the column's metric.

    answers: None where not every evaluation has samples whose mean is its score.
    """

    column: Column
    evaluations: tuple[Evaluation, ...]
    answers: Answers | None
    score: Score


def make_cell(column: Column, evaluations: Sequence[Evaluation]) -> Cell | None:
    """The cell of a task; None where no evaluation has the column's metric."""
    held = tuple(each for each in evaluations if column.metric in each.metrics)
    if not held:
        return None
    notes = []
    if len(held) < len(evaluations):
        notes.append(f"{len(evaluations) - len(held)} seeds without {column.metric} left out")
    seeds = tuple(sorted({each.seed for each in held if each.seed is not None}))
    if any(each.samples is None for each in held):
        notes.append(NO_SAMPLES)
        answers = None
    elif not all(_is_mean(each, column.metric) for each in held):
        notes.append(NOT_THEIR_MEAN)
        answers = None
    else:
        answers = _answers(held, column.metric)
    if answers is None:
        documents = min(each.documents or 0 for each in held)
        found = Score(_reported(column, held), documents, 0, seeds)
    else:
        notes += _unequal(held, answers)
        found = Score(
            _interval(column, answers), len(answers.means), len({*answers.clusters.values()}), seeds
        )
        if not found.interval.is_known:
            notes.append(FEW)
    return Cell(column, held, answers, replace(found, note="; ".join(notes)))


def mean_score(cells: Sequence[Cell]) -> Score:
    """The mean over tasks that each count once.

    Pairs of words and other clusters that several tasks share are one cluster. Where a task's
    samples are not known, the tasks' own intervals are combined as if independent.
    """
    scores = [cell.score for cell in cells]
    seeds = tuple(sorted({seed for score in scores for seed in score.seeds}))
    note = ""
    answers = [cell.answers for cell in cells if cell.answers is not None]
    if len({score.seeds for score in scores}) > 1:
        note = "not all tasks have the same seeds"
    if len(answers) == len(cells) and all(score.clusters > 1 for score in scores):
        sums = [each.sums() for each in answers]
        interval = task_mean_interval(
            [list(own.values()) for own in sums], names=[list(own) for own in sums]
        )
        clusters = len({name for own in sums for name in own})
    else:
        interval = combined_interval([score.interval for score in scores])
        clusters = 0
        note = "; ".join(filter(None, (note, "tasks taken as independent, samples are missing")))
    return Score(interval, sum(score.documents for score in scores), clusters, seeds, note=note)


def _is_mean(evaluation: Evaluation, metric: str) -> bool:
    scores = [
        sample.scores[metric] for sample in evaluation.samples or () if metric in sample.scores
    ]
    if not scores or len(scores) != len(evaluation.samples or ()):
        return False
    return math.isclose(fmean(scores), evaluation.metrics[metric].value, rel_tol=1e-6, abs_tol=1e-6)


def _answers(evaluations: Sequence[Evaluation], metric: str) -> Answers:
    scores: dict[str, list[float]] = defaultdict(list)
    clusters, queries = {}, {}
    for each in evaluations:
        for sample in each.samples or ():
            scores[sample.doc_hash].append(sample.scores[metric])
            clusters[sample.doc_hash] = sample.cluster
            queries[sample.doc_hash] = sample.query
    means = {document: fmean(own) for document, own in scores.items()}
    counts = {document: len(own) for document, own in scores.items()}
    return Answers(means, clusters, queries, counts)


def _interval(column: Column, answers: Answers) -> Interval:
    sums = answers.sums()
    if len(sums) < 2:
        total, asked = next(iter(sums.values()))
        return Interval(total / asked, math.nan, math.nan)
    if column.is_share:
        pairs = list(sums.values())
        return accuracy_interval([total for total, _ in pairs], [asked for _, asked in pairs])
    return task_mean_interval([list(sums.values())], extremes=None)


def _reported(column: Column, evaluations: Sequence[Evaluation]) -> Interval:
    """The same documents are asked with every seed: averaging makes the error no smaller."""
    metrics = [each.metrics[column.metric] for each in evaluations]
    value = fmean(metric.value for metric in metrics)
    errors = [metric.stderr for metric in metrics if metric.stderr is not None]
    stderr = fmean(errors) if len(errors) == len(metrics) else None
    documents = min(each.documents or 0 for each in evaluations)
    return reported_interval(value, stderr, documents, column.is_share)


def _unequal(evaluations: Sequence[Evaluation], answers: Answers) -> list[str]:
    partly = sum(count < len(evaluations) for count in answers.counts.values())
    if not partly:
        return []
    return [f"seeds have different documents: {partly} of {len(answers.means)} not in every seed"]
