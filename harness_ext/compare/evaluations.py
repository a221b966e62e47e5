"""Evaluations: one task answered by one model in one way. All of compare speaks of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Key = tuple[Any, ...]
STEERING_SEED = "steering seed"
"""The fact that tells which draws steering made itself; plain models have none."""


@dataclass(frozen=True)
class Problem:
    """Something about a file that the reader of a table has to know.

    unused: whether the file, or the named part of it, could not be used; otherwise it is used, but
    for what the message says.
    """

    path: Path
    message: str
    unused: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer.

    Attributes:
        doc_hash: of the document asked about: equal hashes are equal documents.
        cluster: what may depend on each other share it: a pair of words, else a query, else the
            document itself.
        query, target, answer: as text; a choice among answers is the text of the chosen one. The
            answer is None where none was asked for, as where a document's likelihood was.
        prompt: the text that the model continued; None where it was not kept.
        scores: by metric, finite numbers.
        answers: by metric, where what is scored is another text than `answer`.
    """

    doc_hash: str
    cluster: str
    query: str
    target: str
    answer: str | None
    prompt: str | None
    scores: Mapping[str, float]
    answers: Mapping[str, str] = field(default_factory=dict)

    def answered(self, metric: str) -> str | None:
        """What the metric scores."""
        return self.answers.get(metric, self.answer)


@dataclass(frozen=True)
class Metric:
    """A task's score by one metric and filter, as the results file gives it.

    stderr: None where lm-eval wrote none.
    """

    value: float
    stderr: float | None
    higher_is_better: bool


@dataclass(frozen=True)
class Evaluation:
    """One task, answered by one model in one way.

    Attributes:
        path: the results file.
        model: a plain name: a packaged model's, a hub name, or the last part of a folder.
        method: of steering; `ablate_KIND` where heads were knocked out; else lm-eval's name of the
            model class, such as `hf`.
        settings: all that may make two rows of one model and method differ: dtype, revision, and
            the arguments of the model and of steering but for the seed.
        task, shots, seed: the seed is lm-eval's few-shot seed; None where it is not told.
        version: of the task's definition, as text.
        group: the groups of the task, as lm-eval's results file names them.
        metrics: by `metric` or, with a filter, `metric,filter`.
        samples: None where they were not logged or cannot be used.
        documents: how many were asked about; None where it is not told.
        steering: what the results file says was done to this task (`config.steering.tasks`).
        facts: with what it was made: versions, weights, date, limit.
        date: seconds since 1970.
    """

    path: Path
    model: str
    method: str
    settings: Mapping[str, Any]
    task: str
    shots: int | None
    seed: int | None
    groups: tuple[str, ...]
    metrics: Mapping[str, Metric]
    samples: tuple[Sample, ...] | None
    documents: int | None
    version: str | None = None
    steering: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    date: float = 0.0

    @property
    def key(self) -> Key:
        """What no two evaluations of a table may share."""
        settings = tuple(sorted((name, repr(value)) for name, value in self.settings.items()))
        seeds = (self.seed, self.facts.get(STEERING_SEED))
        return (self.model, self.method, settings, self.task, self.shots, seeds)


@dataclass(frozen=True)
class Reading:
    """All that was found: the evaluations in the order of their files, and what is wrong."""

    evaluations: tuple[Evaluation, ...]
    problems: tuple[Problem, ...]


PromptOf = Callable[[Evaluation, Sample], "str | None"]
"""Builds the prompt of a sample that was kept without it; None where it is not known."""
