"""Cells of a grid: one task, evaluated in one way with one seed, and the folder it is kept in."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from filelock import FileLock

import harness_ext
from harness_ext.compare.results_files import read_file
from harness_ext.errors import UsageError
from harness_ext.grids.grid import Grid, Method, Model, safe_name
from harness_ext.grids.tasks import LoadedTasks
from harness_ext.grids.weights import weights

log = logging.getLogger(__name__)

KEY = "bench"
"""Where a cell's results file holds its configuration, in `config`."""

_FILES = ("results_", "samples_")
_LOCK = ".lock"
_PACKAGES = ("lm_eval", "transformers", "torch")


@dataclass(frozen=True, eq=False)
class Cell:
    """One evaluation of a grid.

    task_sha256: of all that the task's prompts and scores are made of. weights: hashes of the
    model's files, by the arguments that name them.
    """

    model: Model
    method: Method
    shots: int
    seed: int
    task: str
    limit: int | float | None
    task_sha256: str
    weights: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Where it is kept, below the folder of the grid."""
        setting = f"{self.method.name}-{self.shots}shot-seed{self.seed}"
        return Path(self.model.name, setting, safe_name(self.task))

    @property
    def configuration(self) -> dict[str, Any]:
        """All that may change its answers, and the names that it goes by; JSON-able.

        The batch size is none of it: it moves answers as little as another processor does.
        """
        found = {
            "name": self.method.name,
            "model": dict(self.model.arguments),
            "weights": dict(self.weights),
            "steering": dict(self.method.arguments),
            "shots": self.shots,
            "seed": self.seed,
            "task": self.task,
            "task_sha256": self.task_sha256,
            "limit": self.limit,
            "versions": {
                "taskvec-harness": harness_ext.__version__,
                **{package: version(package) for package in _PACKAGES},
            },
        }
        plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
        return plain

    def __str__(self) -> str:
        return f"{self.task}, {self.method.name}, {self.shots} shots, seed {self.seed}"


def cells(grid: Grid, tasks: LoadedTasks) -> Iterator[Cell]:
    """All cells, in the order in which they are run.

    Models are outermost, so that each is loaded once; then tasks and seeds, so that what one method
    reads of a task serves the next; then shots, from the most down: what is read for many cues
    serves fewer. A cell that two entries ask for is there once.
    """
    seen = set()
    seeds = sorted({seed for method in grid.methods for seed in method.seeds})
    shots = sorted({number for method in grid.methods for number in method.shots}, reverse=True)
    own = {method: set(tasks.of(method.tasks)) for method in grid.methods}
    for model in grid.models:
        hashes = weights(model.arguments)
        for name, seed, number in product(tasks.tasks, seeds, shots):
            for method in grid.methods:
                asked = name in own[method] and seed in method.seeds and number in method.shots
                sha256 = tasks.tasks[name].sha256
                cell = Cell(model, method, number, seed, name, grid.limit, sha256, hashes)
                if asked and cell.folder not in seen:
                    seen.add(cell.folder)
                    yield cell


def finished(folder: Path, cell: Cell, overwrite: bool = False) -> bool:
    """Whether the cell is in the folder of a grid, whole and of this very configuration.

    A damaged cell, the samples cut off say, is none, with a warning that names it.

    Raises :class:`UsageError` where something else is in its place: files of another kind, or, but
    for overwrite, results that are no cell of a grid or of another configuration.
    """
    place = folder / cell.folder
    _check_files(place)
    if overwrite or not place.exists():
        return False
    reason = damage(place, cell.task)
    if reason:
        log.warning("%s is damaged and evaluated again: %s", place, reason)
        return False
    _check_configuration(place, cell)
    return True


def _check_files(place: Path) -> None:
    if place.is_file():
        raise UsageError(
            f"{place}, where a cell is to be kept, is a file. Move it away, or name another "
            "--output_path."
        )
    foreign = [p.name for p in sorted(place.glob("*")) if not p.name.startswith(_FILES)]
    if foreign:
        raise UsageError(
            f"{place} holds {foreign[0]}, which `taskvec bench` did not write. Move it away, or "
            "name another --output_path."
        )


def _check_configuration(place: Path, cell: Cell) -> None:
    found = _results(place)["config"].get(KEY)
    differs = (
        _difference(found, cell.configuration)
        if isinstance(found, dict)
        else ("it was not written by `taskvec bench`")
    )
    if differs:
        raise UsageError(
            f"{place} holds another cell: {differs}. Name another --output_path, or pass "
            "--overwrite to evaluate it again."
        )


def damage(place: Path, task: str) -> str:
    """What is wrong with the files of a cell; empty where nothing is."""
    paths = sorted(place.glob("results_*.json"))
    if len(paths) != 1:
        return f"{len(paths)} results files"
    reading = read_file(paths[0])
    for problem in reading.problems:
        return str(problem)
    for each in reading.evaluations:
        if each.task == task and each.samples is not None:
            return ""
    return f"no samples of {task}"


def _results(place: Path) -> dict[str, Any]:
    (path,) = place.glob("results_*.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def scores_of(results: Mapping[str, Any], task: str) -> dict[str, float]:
    """A task's scores in a results file, by metric and filter."""
    return {
        name.removesuffix(",none"): float(value)
        for name, value in results["results"][task].items()
        if isinstance(value, int | float) and "_stderr" not in name and name != "sample_len"
    }


class OutputError(UsageError):
    """Nothing more can be written, so that nothing more is worth evaluating."""


def make(folder: Path) -> None:
    """Make the folder of all cells. Raises :class:`UsageError` where it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"--output_path {folder} cannot be written to: {error.strerror or error}. Name another."
        ) from error


def save(folder: Path, cell: Cell, write: Callable[[Path], None], overwrite: bool = False) -> None:
    """Let `write` fill a hidden folder, then put that in the cell's place: whole, or not at all.

    Where another process has finished the same cell meanwhile, its files stay, but for overwrite.

    Raises :class:`UsageError` as :func:`finished` does, and changes nothing then;
    :class:`OutputError` where the folder cannot be written to.
    """
    place = folder / cell.folder
    unfinished = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        write(unfinished)
        with FileLock(folder / _LOCK):
            _check_files(place)
            if overwrite or damage(place, cell.task):
                shutil.rmtree(place, ignore_errors=True)
                os.replace(unfinished, place)
            else:
                _check_configuration(place, cell)
    except OSError as error:
        raise OutputError(f"{place} cannot be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed runs left half written."""
    for path in folder.glob("*/*/.*"):
        if path.is_dir() and re.fullmatch(r"\..+\.\d+", path.name) and not _runs(path.name):
            shutil.rmtree(path, ignore_errors=True)


def _runs(name: str) -> bool:
    try:
        os.kill(int(name.rpartition(".")[2]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What differs, such as `limit is 50 there and 4 here`."""
    for name in wanted:
        there, here = found.get(name), wanted[name]
        if isinstance(there, dict) and isinstance(here, dict):
            for key in {**there, **here}:
                if there.get(key) != here.get(key):
                    return f"{name} {key} is {there.get(key)!r} there and {here.get(key)!r} here"
        elif there != here:
            return f"{name} is {there!r} there and {here!r} here"
    return ""
