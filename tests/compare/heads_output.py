"""Writes what results/heads.py writes, for made-up scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from harness_ext.compare.heads_rows import read_models
from harness_ext.compare.heads_runs import FRACTION, Arm, HeadRuns, score_of

Values = Sequence[int]
Cell = tuple[str, int, Arm]


def steering(arm: Arm, seed: int) -> dict[str, Any]:
    """The steering arguments of a run."""
    if arm.added == "none":
        own = {"method": "none"}
        return own if arm.ablated == "none" else {**own, "ablate": arm.ablated, "seed": seed}
    draws = {"draws": 1} if arm.added == "random" else {}
    fraction = {} if arm.fraction == FRACTION else {"head_fraction": arm.fraction}
    return {"method": arm.added, "seed": seed, "dev": 25, **draws, **fraction}


def row(
    task: str, seed: int, arm: Arm, right: Values, in_set: Values | None = None, repeats: int = 1
) -> dict[str, Any]:
    """A row: `right` and, for the TR ratio, `in_set` hold a score for each document.

    repeats: how many documents in a row share a query.
    """
    given = steering(arm, seed)
    ratio = right if in_set is None else in_set
    scores = {score_of(task): list(map(float, right)), "tr_ratio": list(map(float, ratio))}
    if task.startswith("generate_"):
        scores = {"tone_match": list(map(float, right)), "tone_balance": [0.5] * len(right)}
    choice = {
        "layer": 3 + seed, "strength": 2.0, "development_accuracy": 0.5 + seed / 10,
        "heads": [[1, 0]] * round(100 * arm.fraction),
    }  # fmt: skip
    record = {"none": {}, "random": {"draws": [choice], "development_accuracy": 0.5}}
    return {
        "key": json.dumps([task, seed, arm.shots, given], sort_keys=True),
        "task": task,
        "seed": seed,
        "shots": arm.shots,
        "steering": given,
        "doc_hashes": [f"{task} {number}" for number in range(len(right))],
        "queries": [f"query {number // repeats}" for number in range(len(right))],
        "scores": scores,
        "record": record.get(arm.added, choice),
        "version": "1.2.3",
        "weights_sha256": None if arm.added == "none" else "abc",
        "dtype": "float32",
        "seconds": 1.0,
    }


def write(folder: Path, rows: Iterable[dict[str, Any]], model: str = "tiny") -> Path:
    """The rows as the file of a model, whose path it returns."""
    path = folder / f"{model}.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def runs_of(folder: Path, rows: Iterable[dict[str, Any]]) -> HeadRuns:
    """The rows as they are read back."""
    write(folder, rows)
    (runs,) = read_models(folder)
    return runs


def grid(
    tasks: Iterable[str], seeds: Iterable[int], arms: Iterable[Arm], right: Callable[[Arm], Values]
) -> list[dict[str, Any]]:
    """A row for each task, seed and arm; the plain zero-shot prompt has seed 0 alone."""
    seeds, arms = list(seeds), list(arms)
    return [
        row(task, seed, arm, right(arm))
        for task in tasks
        for arm in arms
        for seed in (seeds if arm != Arm() else [0])
    ]
