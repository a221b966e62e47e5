"""Cells of a grid: one task, evaluated in one way with one seed, and the folder it is kept in."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import harness_ext
from harness_ext.errors import UsageError
from harness_ext.grids.grid import Grid, Method, Model

KEY = "bench"
"""Where a cell's results file holds its configuration, in `config`."""

_PACKAGES = ("lm_eval", "transformers", "torch")


@dataclass(frozen=True, eq=False)
class Cell:
    """One evaluation of a grid."""

    model: Model
    method: Method
    shots: int
    seed: int
    task: str
    limit: int | float | None

    @property
    def folder(self) -> Path:
        """Where it is kept, below the folder of the grid."""
        setting = f"{self.method.name}-{self.shots}shot-seed{self.seed}"
        return Path(self.model.name, setting, self.task)

    @property
    def configuration(self) -> dict[str, Any]:
        """All that may change its answers, and the names that it goes by; JSON-able.

        The batch size is none of it: it moves answers as little as another processor does.
        """
        found = {
            "name": self.method.name,
            "model": dict(self.model.arguments),
            "steering": dict(self.method.arguments),
            "shots": self.shots,
            "seed": self.seed,
            "task": self.task,
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


def cells(grid: Grid, tasks: Callable[[tuple[str, ...]], list[str]]) -> Iterator[Cell]:
    """All cells, in the order in which they are run.

    tasks: names of the tasks that names and patterns stand for.

    Models are outermost, so that each is loaded once; then tasks and seeds, so that what one method
    reads of a task serves the next; then shots, from the most down: what is read for many cues
    serves fewer. A cell that two entries ask for is there once.
    """
    seen = set()
    for model in grid.models:
        every = dict.fromkeys(task for method in grid.methods for task in tasks(method.tasks))
        for task in every:
            for seed in sorted({seed for method in grid.methods for seed in method.seeds}):
                for shots in sorted({n for m in grid.methods for n in m.shots}, reverse=True):
                    for method in grid.methods:
                        own = task in tasks(method.tasks) and seed in method.seeds
                        if own and shots in method.shots:
                            cell = Cell(model, method, shots, seed, task, grid.limit)
                            if cell.folder not in seen:
                                seen.add(cell.folder)
                                yield cell


def finished(folder: Path, cell: Cell) -> bool:
    """Whether the cell is in the folder of a grid, whole and of this very configuration.

    Raises :class:`UsageError` where it is there in another configuration, with what differs.
    """
    found = read(folder / cell.folder)
    if found is None:
        return False
    differs = _difference(found, cell.configuration)
    if differs:
        raise UsageError(
            f"{folder / cell.folder} holds another cell: {differs}. Name another --output_path, or "
            "pass --overwrite to evaluate it again."
        )
    return True


def read(folder: Path) -> dict[str, Any] | None:
    """The configuration of the cell in its folder; None where it is not there, or is damaged."""
    paths = sorted(folder.glob("results_*.json"))
    try:
        found = json.loads(paths[-1].read_text(encoding="utf-8"))["config"][KEY]
    except (IndexError, OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) and any(folder.glob("samples_*.jsonl")) else None


def scores_of(results: Mapping[str, Any], task: str) -> dict[str, float]:
    """A task's scores in a results file, by metric and filter."""
    return {
        name.removesuffix(",none"): float(value)
        for name, value in results["results"][task].items()
        if isinstance(value, int | float) and "_stderr" not in name and name != "sample_len"
    }


def save(folder: Path, cell: Cell, write: Callable[[Path], None]) -> None:
    """Let `write` fill a hidden folder, then put that in the cell's place: whole, or not at all."""
    place = folder / cell.folder
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        write(unfinished)
        shutil.rmtree(place, ignore_errors=True)
        os.replace(unfinished, place)
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
