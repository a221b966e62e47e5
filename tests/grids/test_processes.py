"""`accelerate launch`: several processes share the requests of a grid, and one writes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.grids.conftest import Bench

# What `accelerate launch` starts where there are several GPUs.
LAUNCH = (
    *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
    str(Path(__file__).with_name("sharded.py")),
)


def answers(folder: Path) -> dict[tuple[str, str], list[str]]:
    """By cell and document."""
    return {
        (path.parts[-3], row["doc_hash"]): row["filtered_resps"]
        for path in folder.rglob("samples_*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    }


def launch(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCH, *options],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "ACCELERATE_USE_CPU": "true",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_two_processes_answer_as_one_does_and_go_on_where_it_stopped_or_failed(
    bench: Bench, folder: Path, tasks_folder: Path, tmp_path: Path
) -> None:
    assert bench() == 0
    one, two = answers(tmp_path), tmp_path / "two"
    options = (
        *("--models", str(folder), "--tasks", "forward_upper3"),
        *("--include_path", str(tasks_folder), "--limit", "4", "--batch_size", "4"),
        *("--output_path", str(two), "--methods", "none"),
    )
    done = launch(*options, *(f"tv,dev={dev},demos=3" for dev in (3, 4, 5, 2)))
    assert done.returncode != 0
    told = [line for line in done.stderr.split("\n") if line.startswith("taskvec: ")]
    assert [line.partition("seed 1234: ")[2] for line in told] == [
        "this model has no such heads",
        "RuntimeError: out of memory in process 0",
        "RuntimeError: out of memory in process 1",
    ]
    assert "results and samples: " in done.stdout
    assert answers(two) == one
    assert len(list(two.rglob("results_*.json"))) == 2
    done = launch(*options, "tv,dev=2,demos=3", "tv,dev=6,demos=3")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(" of 3: ") == 1
