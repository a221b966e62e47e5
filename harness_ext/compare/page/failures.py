"""Wrong answers to look at: a few of each evaluation, of the same documents where they can be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness_ext.compare.board_rows import Row
from harness_ext.compare.evaluations import Evaluation, PromptOf, Sample
from harness_ext.compare.text import clip, clip_start

EACH = 3
"""At most so many of an evaluation,"""
ALL = 2000
"""and so many on a page."""
TEXT, PROMPT = 160, 500
"""Characters of a query, target or answer, and of a prompt: its end, where the question stands."""


@dataclass(frozen=True)
class Failure:
    """One wrong answer, its texts cut. prompt: None where it is not known."""

    query: str
    target: str
    answer: str
    prompt: str | None


@dataclass(frozen=True)
class Failing:
    """What one evaluation answered wrongly: some of it, and how much there is."""

    row: Row
    seed: int | None
    wrong: int
    documents: int
    shown: tuple[Failure, ...]


@dataclass(frozen=True)
class Failures:
    """By task, what was answered wrongly; wrong and shown are counted over all.

    each: how many of an evaluation are shown at most.
    without_samples: how many evaluations have no samples with a score of right or wrong.
    """

    tasks: Mapping[str, tuple[Failing, ...]]
    wrong: int
    shown: int
    each: int
    without_samples: int


def failures(
    rows: Mapping[Row, Sequence[Evaluation]],
    metrics: Mapping[str, str],
    prompt_of: PromptOf | None = None,
) -> Failures:
    """A few wrong answers of every evaluation.

    Args:
        metrics: by task, the metric that says whether an answer is right: 1, or wrong: 0. Tasks
            are shown in this order.
        prompt_of: builds the prompt of a sample that was kept without one; asked only for samples
            that are shown.

    Those with the least document hashes are shown: a draw that is the same for all evaluations.
    """
    wrong, without = [], 0
    for row, evaluations in rows.items():
        for each in evaluations:
            found = _wrong(each, metrics.get(each.task))
            if found is None:
                without += 1
            elif found:
                wrong.append((row, each, found))
    limit = max(1, min(EACH, ALL // max(1, len(wrong))))
    tasks: dict[str, list[Failing]] = defaultdict(list)
    shown = 0
    for row, each, found in wrong:
        picked = found[: min(limit, ALL - shown)]
        shown += len(picked)
        failed = tuple(_failure(each, sample, metrics[each.task], prompt_of) for sample in picked)
        tasks[each.task].append(
            Failing(row, each.seed, len(found), len(each.samples or ()), failed)
        )
    total = sum(len(found) for _, _, found in wrong)
    by_task = {task: tuple(tasks[task]) for task in metrics if task in tasks}
    return Failures(by_task, total, shown, limit, without)


def _wrong(evaluation: Evaluation, metric: str | None) -> list[Sample] | None:
    """The samples whose score is 0; None where there are none that are right or wrong."""
    samples = evaluation.samples
    if not samples or metric is None:
        return None
    if any(sample.scores.get(metric) not in (0.0, 1.0) for sample in samples):
        return None
    return sorted(
        (sample for sample in samples if sample.scores[metric] == 0.0),
        key=lambda sample: sample.doc_hash,
    )


def _failure(
    evaluation: Evaluation, sample: Sample, metric: str, prompt_of: PromptOf | None
) -> Failure:
    answer = sample.answered(metric)
    prompt = sample.prompt
    if prompt is None and prompt_of is not None:
        prompt = prompt_of(evaluation, sample)
    return Failure(
        query=clip(sample.query, TEXT),
        target=clip(sample.target.strip(" "), TEXT),
        # The spaces around an answer have no part in the score.
        answer="–" if answer is None else clip(answer.strip(" "), TEXT),
        prompt=None if prompt is None else clip_start(prompt, PROMPT),
    )
