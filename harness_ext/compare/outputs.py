"""Evaluations that are to be recorded: which cell they belong to, and all that lm-eval wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness_ext.compare.evaluations import Evaluation, Sample
from harness_ext.compare.results_files import read_file, within
from harness_ext.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,=-]{0,99}")
PLAIN_DTYPE = "float32"
"""What results are recorded in unless their model's name says otherwise."""


@dataclass(frozen=True)
class Cell:
    """One place of the grid of results.

    model: its name, with the dtype behind it where that is not float32. method: its name, or that
    of an entry of a grid. shots: of the tested prompt. seed: lm-eval's few-shot seed.
    """

    model: str
    method: str
    shots: int
    seed: int

    @property
    def folder(self) -> Path:
        """Where the cell is, below the folder of results."""
        return Path(self.model, f"{self.method}-{self.shots}shot-seed{self.seed}")


@dataclass(frozen=True)
class Output:
    """A run of lm-eval: its cell, its results file, and its samples by task."""

    cell: Cell
    results: Mapping[str, Any]
    samples: Mapping[str, tuple[Sample, ...]]


def read_output(path: Path) -> Output:
    """The run behind a results file of lm-eval, with the samples beside it.

    Raises :class:`UsageError` naming the file where anything of it cannot be used, where a task has
    no samples, or where tasks differ in their shots.
    """
    reading = read_file(path)
    for problem in reading.problems:
        raise UsageError(str(problem))
    for each in reading.evaluations:
        if each.samples is None:
            raise UsageError(f"{path}: no samples of {each.task}. Run lm_eval with --log_samples.")
    results = json.loads(path.read_text(encoding="utf-8"))
    name = within(results, "config", "bench").get("name")
    if not isinstance(name, str | None):
        raise UsageError(
            f"{path}: config.bench.name={name!r} is no text, as `taskvec bench` writes it. Run the "
            "grid again."
        )
    cells = {cell_of(each, name) for each in reading.evaluations}
    if len(cells) != 1:
        raise UsageError(
            f"{path}: tasks with different numbers of shots: {results.get('n-shot')}. Run lm_eval "
            "with --num_fewshot N, once for each N."
        )
    samples = {each.task: each.samples or () for each in reading.evaluations}
    return Output(cells.pop(), results, samples)


def cell_of(evaluation: Evaluation, name: str | None = None) -> Cell:
    """The cell of an evaluation; `name` stands for its method where a grid gave it one.

    Raises :class:`UsageError` where the model or the method cannot name a folder, or the shots or
    the few-shot seed are not told.
    """
    dtype = evaluation.settings.get("dtype", PLAIN_DTYPE)
    model = evaluation.model if dtype == PLAIN_DTYPE else f"{evaluation.model}-{dtype}"
    method = name or evaluation.method
    for what, text in (("model", model), ("method", method)):
        if not _NAME.fullmatch(text):
            raise UsageError(
                f"{evaluation.path}: {what}={text!r} cannot name a folder. Names have at most 100 "
                "letters, digits, dots, hyphens and underscores; run lm_eval with pretrained= "
                "given."
            )
    for what, number in (("shots", evaluation.shots), ("few-shot seed", evaluation.seed)):
        if number is None or number < 0:
            raise UsageError(
                f"{evaluation.path}: {what} of {evaluation.task}: {number}. Run lm_eval with "
                "--num_fewshot N, and results files of lm-eval 0.4."
            )
    return Cell(model, method, int(evaluation.shots or 0), int(evaluation.seed or 0))
