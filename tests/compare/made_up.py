"""Evaluations that no model made: answers by document, with lm-eval's mean of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from harness_ext.compare.evaluations import Evaluation, Metric, Reading, Sample

METRIC = "answer_match"


def sample(document: str, score: float, cluster: str | None = None, query: str = "") -> Sample:
    """An answer to a document, a cluster of its own unless told otherwise."""
    return Sample(
        doc_hash=document,
        cluster=cluster or document,
        query=query or document,
        target="right",
        answer="right" if score else "wrong",
        prompt=None,
        scores={METRIC: score},
    )


def evaluation(
    task: str = "forward_upper",
    scores: Sequence[float] | Sequence[Sample] = (1, 0, 1, 1),
    *,
    model: str = "tiny",
    method: str = "tv",
    shots: int | None = 0,
    seed: int | None = 1234,
    settings: Mapping[str, Any] | None = None,
    groups: tuple[str, ...] = (),
    metric: str = METRIC,
    stderr: float | None = 0.1,
    higher_is_better: bool = True,
    has_samples: bool = True,
    documents: int | None = None,
    facts: Mapping[str, Any] | None = None,
    steering: Mapping[str, Any] | None = None,
    version: str | None = None,
    path: Path = Path("results.json"),
) -> Evaluation:
    """One evaluation; equal places in `scores` are equal documents of a task."""
    samples = tuple(
        each if isinstance(each, Sample) else sample(f"{task}-{number}", each)
        for number, each in enumerate(scores)
    )
    if metric != METRIC:
        samples = tuple(
            Sample(
                one.doc_hash,
                one.cluster,
                one.query,
                one.target,
                one.answer,
                None,
                {metric: one.scores[METRIC]},
            )
            for one in samples
        )
    return Evaluation(
        path=path,
        model=model,
        method=method,
        settings=settings or {},
        task=task,
        shots=shots,
        seed=seed,
        groups=groups,
        metrics={
            metric: Metric(fmean(s.scores[metric] for s in samples), stderr, higher_is_better)
        },
        samples=samples if has_samples else None,
        documents=len(samples) if documents is None else documents,
        version=version,
        facts=facts or {},
        steering=steering or {},
    )


def reading(*evaluations: Evaluation) -> Reading:
    """What was read, without problems."""
    return Reading(evaluations, ())


def word_map(
    name: str,
    scores: Mapping[str, Sequence[Sequence[float]]],
    *,
    method: str,
    shots: int,
    **further: Any,
) -> list[Evaluation]:
    """The tasks of a map: by direction, for each pair the scores of its x and y queries.

    forward asks for x alone, inverse for y alone, bijection for both.
    """
    return [
        evaluation(
            f"{direction}_{name}",
            [
                sample(f"{direction}-{pair}-{number}", score, f"pair{pair}", f"q{pair}-{number}")
                for pair, own in enumerate(rows)
                for number, score in enumerate(own)
            ],
            method=method,
            shots=shots,
            **further,
        )
        for direction, rows in scores.items()
    ]
