"""Joins runs of one cell over different tasks, so that a cell can be run task by task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness_ext.compare.outputs import Output
from harness_ext.compare.results_files import within
from harness_ext.errors import UsageError

BY_TASK = (
    "results",
    "groups",
    "group_subtasks",
    "configs",
    "versions",
    "n-shot",
    "higher_is_better",
    "n-samples",
    "task_hashes",
)
SAME: tuple[tuple[str, ...], ...] = (
    ("model_name",),
    ("config", "model_args"),
    ("config", "model_num_parameters"),
    ("config", "model_dtype"),
    ("config", "model_revision"),
    ("config", "model_sha"),
    ("config", "steering", "version"),
    ("config", "steering", "arguments"),
    ("config", "steering", "model"),
    ("config", "fewshot_seed"),
    ("config", "limit"),
    ("config", "gen_kwargs"),
    ("system_instruction",),
    ("chat_template",),
    ("fewshot_as_multiturn",),
    ("lm_eval_version",),
    ("transformers_version",),
    ("pretty_env_info",),
)
_DATE, _TIME = "date", "total_evaluation_time_seconds"


def merge(runs: Mapping[Path, Output]) -> Output:
    """One run out of runs of one cell over different tasks, given by the results files they are in.

    What lm-eval keeps by task is joined, the date is the latest, the evaluation times are added up.
    Of everything else what the runs agree on is kept; what is listed in SAME they must agree on.
    A single run is returned as it is.

    Raises:
        UsageError: naming both files, where runs hold the same task or group, or were not made
            alike, with both values; naming one, where its date or time is no number.
    """
    if len(runs) == 1:
        return next(iter(runs.values()))
    _check_disjoint(runs)
    _check_alike(runs)
    files = [run.results for run in runs.values()]
    results = _agreed(files)
    results |= {key: _joined(files, key) for key in BY_TASK if any(key in file for file in files)}
    results["config"] = _agreed([file["config"] for file in files])
    if "steering" in files[0]["config"]:
        steering = [file["config"]["steering"] for file in files]
        results["config"]["steering"] = {**_agreed(steering), "tasks": _joined(steering, "tasks")}
    results[_DATE] = max(_number(path, run, _DATE) for path, run in runs.items())
    results[_TIME] = str(sum(_number(path, run, _TIME) for path, run in runs.items()))
    samples = {task: rows for run in runs.values() for task, rows in run.samples.items()}
    return Output(next(iter(runs.values())).cell, results, samples)


def _check_disjoint(runs: Mapping[Path, Output]) -> None:
    found: dict[str, Path] = {}
    for path, run in runs.items():
        names = {name for key in BY_TASK for name in within(run.results, key)}
        for name in sorted({*names, *within(run.results, "config", "steering", "tasks")}):
            if name in found:
                raise UsageError(
                    f"{found[name]} and {path} are both runs of {name} in {run.cell.folder}. Name "
                    "the one to record."
                )
        found |= dict.fromkeys(names, path)


def _check_alike(runs: Mapping[Path, Output]) -> None:
    (first, ours), *others = ((path, _made_with(run.results)) for path, run in runs.items())
    for path, theirs in others:
        for name in {**ours, **theirs}:
            if ours.get(name) != theirs.get(name):
                raise UsageError(
                    f"{first} and {path} cannot be recorded as one run: {name} is "
                    f"{ours.get(name)!r} in the first and {theirs.get(name)!r} in the second. Run "
                    "all tasks of a cell alike, or name the files of one way only."
                )


def _made_with(results: Mapping[str, Any]) -> dict[str, Any]:
    """What SAME names, by dotted name down to single values."""
    return {
        name: value
        for keys in SAME
        for name, value in _leaves(within(results, *keys[:-1]).get(keys[-1]), ".".join(keys))
    }


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, entry in value.items():
            yield from _leaves(entry, f"{name}.{key}")
    else:
        yield name, value


def _agreed(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entries that all mappings hold with one value."""
    first, *others = mappings
    return {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in others)
    }


def _joined(mappings: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    return {name: value for each in mappings for name, value in within(each, key).items()}


def _number(path: Path, run: Output, key: str) -> float:
    try:
        number = float(run.results[key])
    except (KeyError, TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(
            f"{path}: {key}={run.results.get(key)!r} is not a number. Run the tasks again."
        )
    return number
