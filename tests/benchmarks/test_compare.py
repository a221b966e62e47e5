"""A leaderboard of 500 results files with 100 samples each: time beside json, and memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness_ext.compare.leaderboard import build
from harness_ext.compare.reading import read
from harness_ext.compare.table1 import table1
from tests.benchmarks.conftest import ratio
from tests.compare.output import documents, pairs, write_output

FILES, SAMPLES = 500, 100
MODELS, METHODS, SEEDS = ("one", "two"), (("none", 0), ("none", 10), ("tv", 0), ("tv_m", 4)), 3
MAPS = 7  # three tasks each
MOST_TIMES_JSON, MOST_MEGABYTES = 10, 500

# Not ru_maxrss: a child process begins with the most that its parent held.
MEASURE = """
import sys
from pathlib import Path
from harness_ext.cli import main
status = main(["leaderboard", sys.argv[1], "--all-tasks", "--output", sys.argv[2]])
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(status, int(peak) // 1024)
"""


def cells() -> Iterator[tuple[str, str, int, int, str]]:
    """Model, method, shots, seed and task of each file."""
    tasks = [f"{way}_m{n}" for n in range(MAPS) for way in ("forward", "inverse", "bijection")]
    grid = (
        (model, method, shots, seed, task)
        for task in tasks
        for model in MODELS
        for method, shots in METHODS
        for seed in range(SEEDS)
    )
    for _, cell in zip(range(FILES), grid, strict=False):
        yield cell


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, each of one task, as a grid of runs leaves them."""
    rng = random.Random(0)
    folder = tmp_path_factory.mktemp("grid")
    for number, (model, method, shots, seed, task) in enumerate(cells()):
        asked = documents(task, pairs(SAMPLES))[:SAMPLES]
        answers = {task: [(doc, rng.randrange(2)) for doc in asked]}
        path = write_output(folder / str(number), answers, method, shots, f"packaged:{model}")
        results = json.loads(path.read_text())
        results["config"]["fewshot_seed"] = seed
        path.write_text(json.dumps(results))
    assert number + 1 == FILES
    return folder


def parse(folder: Path) -> int:
    """Every line of the files through json, which the reader cannot do without."""
    count = 0
    for path in folder.rglob("*.json*"):
        text = path.read_text()
        # Not str.splitlines: answers may hold other line separators.
        lines = text.rstrip("\n").split("\n") if path.suffix == ".jsonl" else [text]
        count += sum(1 for line in lines if json.loads(line))
    return count


def make(folder: Path) -> None:
    """The leaderboard with the table of gaps."""
    reading = read([folder])
    assert len(reading.evaluations) == FILES and not reading.problems
    assert table1(reading.evaluations) is not None
    build(reading)


def test_the_leaderboard_takes_few_times_as_long_as_parsing_its_files(folder: Path) -> None:
    found = ratio(lambda: make(folder), lambda: parse(folder), MOST_TIMES_JSON)
    print(f"{found:.1f} times as long as json alone")
    assert found <= MOST_TIMES_JSON


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak")
@pytest.mark.parametrize("name", ["board.md", "board.txt", "board.csv", "board.json"])
def test_the_command_stays_within_its_memory(folder: Path, tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=True,
    )
    status, megabytes = map(int, done.stdout.split())
    print(f"{megabytes} MB")
    assert status == 0 and megabytes <= MOST_MEGABYTES
