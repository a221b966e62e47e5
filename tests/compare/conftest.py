from __future__ import annotations

from pathlib import Path

import pytest

from harness_ext.compare.record import record
from tests.compare.output import answered, write_output
from tests.compare.shot_runs import CELLS, TASKS, right_in


@pytest.fixture(scope="module")
def recorded_shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every cell of the model tiny on three tasks, recorded."""
    folder = tmp_path_factory.mktemp("shots")
    for method, shots in CELLS:
        answers = answered(TASKS, right_in(method, shots), count=12)
        write_output(folder / f"out/{method}{shots}", answers, method, shots)
    record([folder / "out"], folder / "results")
    return folder / "results"


@pytest.fixture
def shots(recorded_shots: Path, tmp_path: Path) -> Path:
    """A copy of the recorded cells that a test may change."""
    for path in recorded_shots.glob("*/*/*"):
        copy = tmp_path / path.relative_to(recorded_shots)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path
