"""Recorded runs of a model that was never there, at 0 to 4 shots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness_ext.compare.board_cells import Cell
from harness_ext.compare.shots import METHODS, read_models
from tests.compare.output import Right

TASKS = ("bijection_upper", "bijection_past", "forward_upper")
CELLS = [("none", 0), ("tv", 0)]
CELLS += [(method, n) for n in range(1, 5) for method in ("none", "tv", "tv_m", "tv_ms")]
BIJECTIONS = TASKS[:2]


def right_in(method: str, shots: int) -> Right:
    """The plain model is right on every third pair, `tv` on all up to two shots, `tv_ms` never."""

    def right(doc: dict[str, str]) -> int:
        third = int(doc["pair"].partition("|")[0][1:]) % 3 == 0
        steered = method in ("tv", "tv_m") and (shots <= 2 or third)
        return int(steered or (method == "none" and third))

    return right


def cells(folder: Path, method: str, shots: int, tasks: Sequence[str] = BIJECTIONS) -> list[Cell]:
    name = next(name for name, known in METHODS.items() if known == method)
    (model,) = read_models(folder)
    return model.of(name, shots, tasks)
