"""What the results of a page were made with, and by which files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.text import Places, count, listed

FILES = 1000
"""Files named at most; further ones are counted."""


@dataclass(frozen=True)
class MadeWith:
    """One model at one dtype: each fact by name; where its evaluations differ, all values."""

    model: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Run:
    """The evaluations of one model and method at one number of shots."""

    model: str
    method: str
    shots: str
    settings: str
    tasks: str
    seeds: str
    dates: str


@dataclass(frozen=True)
class Provenance:
    """fact_names: of all models. files: how many tasks each gives; unnamed: how many more."""

    fact_names: tuple[str, ...]
    models: tuple[MadeWith, ...]
    runs: tuple[Run, ...]
    files: tuple[tuple[str, str], ...]
    unnamed: int


def provenance(evaluations: Sequence[Evaluation], places: Places) -> Provenance:
    """What made the evaluations."""
    by_model: dict[tuple[str, str], list[Evaluation]] = defaultdict(list)
    by_run: dict[tuple[str, str, str, str], list[Evaluation]] = defaultdict(list)
    by_file: dict[str, int] = defaultdict(int)
    for each in evaluations:
        by_model[each.model, str(each.settings.get("dtype", "not told"))].append(each)
        settings = places.in_text(
            listed((f"{name}={value}" for name, value in each.settings.items()), 30)
        )
        shots = "not told" if each.shots is None else str(each.shots)
        by_run[each.model, each.method, shots, settings].append(each)
        by_file[places.name(each.path)] += 1
    models = tuple(
        MadeWith(model, {"dtype": dtype, **_facts(own, places)})
        for (model, dtype), own in by_model.items()
    )
    files = sorted(by_file.items())
    return Provenance(
        fact_names=tuple(dict.fromkeys(name for each in models for name in each.facts)),
        models=models,
        runs=tuple(_run(key, own) for key, own in by_run.items()),
        files=tuple((name, count(used, "task")) for name, used in files[:FILES]),
        unnamed=max(0, len(files) - FILES),
    )


def day(seconds: float) -> str:
    """The day of a time in seconds since 1970, in UTC; empty where it is none."""
    try:
        return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d}" if seconds > 0 else ""
    except (OverflowError, OSError, ValueError):
        return ""


def days(evaluations: Iterable[Evaluation]) -> str:
    """The first and the last day of the evaluations, one where they are equal."""
    known = sorted({day(each.date) for each in evaluations} - {""})
    if not known:
        return "not told"
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _facts(evaluations: Sequence[Evaluation], places: Places) -> dict[str, str]:
    values: dict[str, dict[str, None]] = defaultdict(dict)
    for each in evaluations:
        for name, value in each.facts.items():
            if name != "limit":  # of a run, not of a model
                values[name][places.in_text(str(value))] = None
    return {name: listed(own) for name, own in values.items()}


def _run(key: tuple[str, str, str, str], evaluations: Sequence[Evaluation]) -> Run:
    limits = [each.facts["limit"] for each in evaluations if "limit" in each.facts]
    limited = f", limit {listed(limits)}" if limits else ""
    seeds = listed("not told" if each.seed is None else each.seed for each in evaluations)
    return Run(
        *key,
        tasks=count(len({each.task for each in evaluations}), "task") + limited,
        seeds=seeds,
        dates=days(evaluations),
    )
