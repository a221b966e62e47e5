"""Recorded results: what they look like, and how they are read.

    results/<model>/<method>-<shots>shot/results.json    lm-eval's results file
                                         samples.jsonl   one small row per answer, all tasks

`harness_ext.compare.record` writes them.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness_ext.errors import UsageError

RESULTS, SAMPLES = "results.json", "samples.jsonl"
_AGAIN = "Record the run again."
SCORES = ("answer_match", "exact_match", "tr_ratio", "pair_match", "side_match")
_TEXTS = ("task", "doc_hash", "query", "target", "answer", "pair", "side")
_WANTED: Mapping[str, Any] = {
    "config": dict,
    "configs": dict,
    "n-shot": dict,
    "n-samples": dict,
    "date": (int, float),
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Cell:
    """One place of the grid of results: a model, a method, and the shots of the tested prompt."""

    model: str
    method: str
    shots: int

    @property
    def folder(self) -> Path:
        """Where the cell is, below the folder of results."""
        return Path(self.model, f"{self.method}-{self.shots}shot")


@dataclass(frozen=True)
class Answer:
    """One answer of a model to a document of a word task.

    Attributes:
        task, doc_hash, query, target, pair, side, draw: which document it answers.
        answer: the generated text.
        scores: 0 or 1 for each metric of the task, by name out of SCORES.
    """

    task: str
    doc_hash: str
    query: str
    target: str
    answer: str
    pair: str
    side: str
    draw: int
    scores: Mapping[str, int]

    def row(self) -> dict[str, Any]:
        """The answer as a flat row of samples.jsonl."""
        fields = dict(vars(self))
        return fields | fields.pop("scores")


@dataclass(frozen=True)
class Run:
    """A recorded run: where it stands, lm-eval's results file, and the answers by task."""

    cell: Cell
    results: Mapping[str, Any]
    answers: Mapping[str, tuple[Answer, ...]]


def read_runs(folder: Path) -> tuple[Run, ...]:
    """All recorded runs below a folder of results, by path; none where there is no such folder.

    Raises :class:`UsageError` naming the first file that is not as it was recorded.
    """
    return tuple(_read_run(path, folder) for path in sorted(folder.glob(f"*/*/{RESULTS}")))


def _read_run(path: Path, folder: Path) -> Run:
    results = read_results(path)
    cell = cell_of(results, path)
    if path.parent != folder / cell.folder:
        raise UsageError(f"{path} holds the results of {cell.folder}: it was moved or edited.")
    samples = path.with_name(SAMPLES)
    answers = by_task(read_answers(samples), results, samples)
    return Run(cell, results, answers)


def read_results(path: Path) -> dict[str, Any]:
    """The content of a results file. Raises :class:`UsageError` where it is not one of lm-eval."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as JSON ({error}). {_AGAIN}") from error
    for key, kind in _WANTED.items():
        if not isinstance(results, dict) or not isinstance(results.get(key), kind):
            raise UsageError(f"{path} is no results file of lm-eval: it has no {key}. {_AGAIN}")
    return results


def cell_of(results: Mapping[str, Any], path: Path) -> Cell:
    """The cell that a results file belongs to; `path` is named in errors.

    The method is `method` of the steering arguments (`ablate_tr` where heads were knocked out), or
    lm-eval's name of the model class where nothing of ours ran (`hf`).

    Raises:
        UsageError: a name is no plain name, or the tasks have different numbers of shots.
    """
    arguments = within(results, "config", "steering", "arguments")
    ablated = arguments.get("ablate", "none") != "none"
    method = f"ablate_{arguments['ablate']}" if ablated else arguments.get("method")
    names = {"model": results.get("model_name"), "method": method or results["config"].get("model")}
    for what, name in names.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(
                f"{path}: {what}={name!r} cannot name a folder. Names have at most 100 letters, "
                "digits, dots, hyphens and underscores; run lm_eval with pretrained= given."
            )
    shots = {results["n-shot"].get(task) for task in results["configs"]}
    number = shots.pop() if len(shots) == 1 else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise UsageError(
            f"{path}: tasks with different numbers of shots, or unknown ones: {results['n-shot']}. "
            "Run lm_eval with --num_fewshot N, once for each N."
        )
    return Cell(str(names["model"]), str(names["method"]), number)


def within(results: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The mapping that stands under the keys, one inside the other; empty where there is none."""
    found: Any = results
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def read_answers(path: Path) -> Iterator[Answer]:
    """The rows of a recorded samples file. Raises :class:`UsageError` naming a faulty line."""
    for place, row in read_rows(path):
        yield answer_of(row, row, place)


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a JSON-lines file, each with the place it stands at.

    Raises :class:`UsageError` where there is no such file or a line is not a JSON object.
    """
    try:
        # Not str.splitlines: a generated text may hold other line separators than "\n".
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}). {_AGAIN}") from error
    for number, line in enumerate(lines, 1):
        place = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{place}: cut off or not JSON ({error}). {_AGAIN}") from error
        if not isinstance(row, dict):
            raise UsageError(f"{place}: not a row of samples: {line[:80]!r}. {_AGAIN}")
        yield place, row


def answer_of(document: Mapping[str, Any], scores: Mapping[str, Any], place: str) -> Answer:
    """An answer from the fields of its row and the scores, which may stand in the row as well.

    Raises :class:`UsageError` naming a field that is missing or of the wrong kind; `place` says
    where.
    """
    for name in _TEXTS:
        if not isinstance(document.get(name), str):
            raise UsageError(
                f"{place}: {name}={document.get(name)!r} is not a text. Only answers to the word "
                "tasks of this package can be recorded and compared."
            )
    draw = document.get("draw")
    if not isinstance(draw, int) or isinstance(draw, bool):
        raise UsageError(f"{place}: draw={draw!r} is not a whole number. {_AGAIN}")
    known = {name: scores[name] for name in SCORES if name in scores}
    for name, score in known.items():
        if score not in (0, 1):
            raise UsageError(f"{place}: {name}={score} is neither 0 nor 1. {_AGAIN}")
    if "answer_match" not in known:
        raise UsageError(f"{place}: no answer_match, the score that is compared. {_AGAIN}")
    texts = {name: document[name] for name in _TEXTS}
    return Answer(**texts, draw=draw, scores={name: int(score) for name, score in known.items()})


def by_task(
    answers: Iterable[Answer], results: Mapping[str, Any], path: Path
) -> dict[str, tuple[Answer, ...]]:
    """The answers of each task, checked against the numbers in the results file.

    Raises :class:`UsageError`, naming the task, where answers are missing or stand twice.
    """
    tasks: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        tasks[answer.task].append(answer)
    for task in sorted({*tasks, *results["n-samples"]}):
        count = within(results, "n-samples", task).get("effective", 0)
        if len(tasks[task]) != count:
            raise UsageError(
                f"{path}: {len(tasks[task])} answers to {task}, where the results file counts "
                f"{count}. Run lm_eval with --log_samples and record the run again."
            )
        hashes = Counter(answer.doc_hash for answer in tasks[task])
        twice = [name for name, times in hashes.items() if times > 1]
        if twice:
            raise UsageError(f"{path}: a document of {task} stands twice: {twice[0]}. {_AGAIN}")
    return {task: tuple(rows) for task, rows in tasks.items()}
