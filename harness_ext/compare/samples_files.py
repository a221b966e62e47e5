"""The samples beside a results file of lm-eval: one row per answer."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness_ext.compare import json_rows
from harness_ext.compare.answers import answers_of, argument
from harness_ext.compare.evaluations import Problem, Sample
from harness_ext.compare.json_rows import DamagedRow

SAMPLES = "samples.jsonl"
HASH = 16
_NO_SCORES = ("answer_match_stderr",)

# One for all samples, of which there may be very many.
_NONE: Mapping[str, str] = MappingProxyType({})

Samples = dict[str, tuple[Sample, ...]]
_Document = tuple[str, str]


def read_samples(results_path: Path, tasks: Mapping[str, Any]) -> tuple[Samples, list[Problem]]:
    """The samples of the tasks that stand beside a results file, and what is wrong with them.

    tasks: each with its configuration.

    A task whose samples are damaged, in part or as a whole, has none: half of them would be
    another test set. Tasks without a samples file are left out without a word.
    """
    found: Samples = {}
    problems: list[Problem] = []
    for path, named in _files(results_path, tasks):
        rows: dict[str, dict[_Document, Sample]] = defaultdict(dict)
        damaged: dict[str, Problem] = {}
        odd: dict[tuple[str, str], Problem] = {}
        try:
            lines = json_rows.lines(path)
        except (OSError, ValueError) as error:
            of = named or "all tasks"
            problems.append(
                Problem(path, f"cannot be read ({error}); the samples of {of} are not used.")
            )
            continue
        if not lines:
            problems.append(Problem(path, "holds no samples."))
        for number, line in enumerate(lines, 1):
            try:
                row = json_rows.row(line)
                task = named or _task(row)
            except DamagedRow as error:
                # Whose row it was is not known where the file holds several tasks.
                for each in [named] if named else tasks:
                    damaged.setdefault(each, _problem(path, number, each, error))
                continue
            try:
                sample, unusable = _sample(row, _delimiter(tasks.get(task)))
                _add(rows[task], sample, row.get("doc_id"))
            except DamagedRow as error:
                damaged.setdefault(task, _problem(path, number, task, error))
                continue
            for name in unusable:
                odd.setdefault((task, name), _odd(path, number, task, name, row[name]))
        problems += damaged.values()
        problems += (problem for (task, _), problem in odd.items() if task not in damaged)
        found |= {task: _numbered(own) for task, own in rows.items() if own and task not in damaged}
    return found, problems


def _files(results_path: Path, tasks: Iterable[str]) -> Iterator[tuple[Path, str | None]]:
    """Samples files, each with the task it is of; None where its rows name it."""
    recorded = results_path.with_name(SAMPLES)
    if recorded.exists():
        yield recorded, None
    date = results_path.stem.rpartition("_")[2]
    for task in tasks:
        # lm-eval writes the task's name as it is.
        path = results_path.parent / f"samples_{task}_{date}.jsonl"
        # os.path.exists: a name that no file can have is no error.
        if path.parent == results_path.parent and os.path.exists(path):
            yield path, task


def _problem(path: Path, line: int, task: str, error: DamagedRow) -> Problem:
    return Problem(path, f"line {line}: {error}; the samples of {task} are not used.")


def _task(row: Mapping[str, Any]) -> str:
    task = row.get("task")
    if not isinstance(task, str):
        raise DamagedRow(f"task={task!r} is not a name")
    return task


def _add(samples: dict[_Document, Sample], sample: Sample, number: Any) -> None:
    """Add a row; one of another filter adds its scores and answers to the document's sample.

    number: of the document, which equal documents do not share.
    """
    # Recorded rows have no number; equal documents have hashes of their own there.
    document = (sample.doc_hash, str(number))
    other = samples.setdefault(document, sample)
    if other is sample:
        return
    if not sample.scores or other.scores.keys() & sample.scores:
        raise DamagedRow(f"document {sample.doc_hash} stands twice")
    answers = {
        metric: answer
        for metric in sample.scores
        if (answer := sample.answered(metric)) is not None and answer != other.answer
    }
    samples[document] = replace(
        other, scores={**other.scores, **sample.scores}, answers={**other.answers, **answers}
    )


def _numbered(samples: Mapping[_Document, Sample]) -> tuple[Sample, ...]:
    """The samples, those of equal documents told apart by their order."""
    times = Counter[str]()
    found = []
    for sample in samples.values():
        times[sample.doc_hash] += 1
        number = times[sample.doc_hash]
        found.append(
            sample if number == 1 else replace(sample, doc_hash=f"{sample.doc_hash}.{number}")
        )
    return tuple(found)


def _delimiter(config: Any) -> str:
    found = config.get("target_delimiter") if isinstance(config, dict) else None
    return found if isinstance(found, str) else " "


def _sample(row: Mapping[str, Any], delimiter: str) -> tuple[Sample, list[str]]:
    """The answer in a row, and the names of scores that are no numbers to compare."""
    doc_hash = row.get("doc_hash")
    if not isinstance(doc_hash, str) or not doc_hash:
        raise DamagedRow(f"doc_hash={doc_hash!r}: without it answers cannot be paired")
    # A recorded row is flat, lm-eval's keeps the document apart.
    document = row["doc"] if isinstance(row.get("doc"), dict) else row
    query = _first_text(document, ("query", "question", "sentence", "text", "input"))
    # Enough to tell documents apart, and what recorded results hold.
    name, dot, number = doc_hash.partition(".")
    name = name[:HASH]
    suffix = "" if row.get("filter") in (None, "none") else f",{row['filter']}"
    answers = answers_of(row, delimiter)
    scores, unusable = _scores(row, suffix)
    sample = Sample(
        doc_hash=f"{name}{dot}{number}",
        cluster=next(
            (document[of] for of in ("pair", "query") if isinstance(document.get(of), str)), name
        ),
        query=query,
        target=str(row.get("target", "")),
        answer=answers.pop("", None),
        prompt=argument(row, 0, 0),
        scores=scores,
        answers={f"{metric}{suffix}": answer for metric, answer in answers.items()} or _NONE,
    )
    return sample, unusable


def _scores(row: Mapping[str, Any], suffix: str) -> tuple[dict[str, float], list[str]]:
    names = row.get("metrics")
    if not isinstance(names, list):  # a recorded row: what is 0 or 1 in it is a score
        names = list(row)
    scores, unusable = {}, []
    for name in names:
        value = row.get(name) if isinstance(name, str) else None
        if not isinstance(value, int | float) or name in _NO_SCORES:
            continue
        if _is_finite(value):
            scores[f"{name}{suffix}"] = float(value)
        else:
            unusable.append(name)
    return scores, unusable


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # whole numbers have no bounds in JSON
        return False


def _odd(path: Path, line: int, task: str, name: str, value: Any) -> Problem:
    return Problem(
        path,
        f"line {line}: {name}={str(value)[:40]} is no number to compare; the answer to {task} "
        f"counts as one without {name}.",
        unused=False,
    )


def _first_text(document: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((document[name] for name in names if isinstance(document.get(name), str)), "")
