"""The samples beside a results file of lm-eval: one row per answer."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness_ext.compare import json_rows
from harness_ext.compare.evaluations import Problem, Sample
from harness_ext.compare.json_rows import DamagedRow

SAMPLES = "samples.jsonl"
HASH = 16
_NO_SCORES = ("answer_match_stderr",)

Samples = dict[str, tuple[Sample, ...]]


def read_samples(results_path: Path, tasks: Iterable[str]) -> tuple[Samples, list[Problem]]:
    """The samples of the tasks that stand beside a results file, and what is wrong with them.

    A task whose samples are damaged, in part or as a whole, has none: half of them would be
    another test set. Tasks without a samples file are left out without a word.
    """
    found: Samples = {}
    problems: list[Problem] = []
    for path, named in _files(results_path, tasks):
        rows: dict[str, list[Sample]] = defaultdict(list)
        damaged: dict[str, Problem] = {}
        try:
            lines = json_rows.lines(path)
        except (OSError, ValueError) as error:
            problems.append(Problem(path, f"cannot be read ({error})."))
            continue
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
                _add(rows[task], row)
            except DamagedRow as error:
                damaged.setdefault(task, _problem(path, number, task, error))
        for task in rows:
            if task not in damaged and (twice := _twice(rows[task])):
                damaged[task] = Problem(
                    path, f"{task}: document {twice} stands twice; its samples are not used."
                )
        problems += damaged.values()
        found |= {task: tuple(own) for task, own in rows.items() if own and task not in damaged}
    return found, problems


def _files(results_path: Path, tasks: Iterable[str]) -> Iterator[tuple[Path, str | None]]:
    """Samples files, each with the task it is of; None where its rows name it."""
    recorded = results_path.with_name(SAMPLES)
    if recorded.exists():
        yield recorded, None
    date = results_path.stem.partition("_")[2]
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


def _add(samples: list[Sample], row: Mapping[str, Any]) -> None:
    """Add a row; one of another filter adds its scores to the document's sample."""
    sample = _sample(row)
    if samples and row.get("filter") not in (None, "none"):
        for number, other in enumerate(samples):
            if other.doc_hash == sample.doc_hash and not other.scores.keys() & sample.scores:
                samples[number] = replace(other, scores={**other.scores, **sample.scores})
                return
    samples.append(sample)


def _sample(row: Mapping[str, Any]) -> Sample:
    doc_hash = row.get("doc_hash")
    if not isinstance(doc_hash, str) or not doc_hash:
        raise DamagedRow(f"doc_hash={doc_hash!r}: without it answers cannot be paired")
    # A recorded row is flat, lm-eval's keeps the document apart.
    document = row["doc"] if isinstance(row.get("doc"), dict) else row
    query = _first_text(document, ("query", "question", "sentence", "text", "input"))
    return Sample(
        # Enough to tell documents apart, and what recorded results hold.
        doc_hash=doc_hash[:HASH],
        cluster=next(
            (document[name] for name in ("pair", "query") if isinstance(document.get(name), str)),
            doc_hash[:HASH],
        ),
        query=query,
        target=str(row.get("target", "")),
        answer=_answer(row),
        prompt=_argument(row, 0, 0),
        scores=_scores(row),
    )


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    names = row.get("metrics")
    if not isinstance(names, list):  # a recorded row: what is 0 or 1 in it is a score
        names = [name for name in row if isinstance(row[name], int | float)]
    own = row.get("filter")
    suffix = "" if own in (None, "none") else f",{own}"
    scores = {}
    for name in names:
        value = row.get(name)
        if name in _NO_SCORES or isinstance(value, list | str | dict | None):
            continue
        try:
            scores[f"{name}{suffix}"] = float(value)
            finite = math.isfinite(value)
        except OverflowError:  # whole numbers have no bounds in JSON
            finite = False
        if not finite:
            raise DamagedRow(f"{name}={str(value)[:40]} is no number to compare")
    return scores


def _answer(row: Mapping[str, Any]) -> str:
    if isinstance(row.get("answer"), str):
        return row["answer"]
    answers = row.get("filtered_resps")
    if not isinstance(answers, list) or not answers:
        return ""
    if all(isinstance(answer, list) and answer for answer in answers):  # log-likelihoods
        likelihoods = [_number(answer[0]) for answer in answers]
        best = likelihoods.index(max(likelihoods))
        return _argument(row, best, 1) or f"choice {best + 1}"
    return answers[0] if isinstance(answers[0], str) else str(answers[0])


def _argument(row: Mapping[str, Any], request: int, number: int) -> str | None:
    """What lm-eval asked the model: argument 0 is the prompt, 1 a continuation that is scored."""
    arguments = row.get("arguments")
    if isinstance(arguments, dict):
        requested = arguments.get(f"gen_args_{request}")
        found = requested.get(f"arg_{number}") if isinstance(requested, dict) else None
        return found if isinstance(found, str) else None
    return None


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return -math.inf


def _first_text(document: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((document[name] for name in names if isinstance(document.get(name), str)), "")


def _twice(samples: list[Sample]) -> str | None:
    counts = Counter(sample.doc_hash for sample in samples)
    return next((name for name, times in counts.items() if times > 1), None)
