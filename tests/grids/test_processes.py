"""`accelerate launch`: several processes share the requests of a grid, and one writes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.grids.conftest import Bench

LAUNCH = (
    *(sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_machines", "1"),
    *("--num_processes", "2", "--mixed_precision", "no", "--dynamo_backend", "no"),
)


def answers(folder: Path) -> dict[tuple[str, str], list[str]]:
    """By cell and document."""
    return {
        (path.parts[-3], row["doc_hash"]): row["filtered_resps"]
        for path in folder.rglob("samples_*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    }


def test_two_processes_answer_as_one_does_and_go_on_where_it_stopped(
    bench: Bench, folder: Path, tasks_folder: Path, tmp_path: Path
) -> None:
    assert bench() == 0
    one, two = answers(tmp_path), tmp_path / "two"
    options = (
        *("--models", str(folder), "--methods", "none", "tv,dev=2,demos=3"),
        *("--tasks", "forward_upper3", "--include_path", str(tasks_folder)),
        *("--limit", "4", "--batch_size", "4", "--output_path", str(two)),
    )

    def launch() -> str:
        done = subprocess.run(
            [*LAUNCH, "-m", "harness_ext", "bench", *options],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert launch().count(" of 2: ") == 2
    assert answers(two) == one
    assert len(list(two.rglob("results_*.json"))) == 2
    assert " of 2: " not in launch()
