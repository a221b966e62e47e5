"""The tiny model and the small tasks of tests/lm, and `taskvec bench` on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness_ext.commands.bench import main
from tests.lm.conftest import folder as folder
from tests.lm.conftest import tasks_folder as tasks_folder

Bench = Callable[..., int]


def contents(folder: Path) -> dict[str, bytes]:
    """What the files of results hold."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.fixture
def bench(folder: Path, tasks_folder: Path, tmp_path: Path) -> Bench:
    """Runs a grid of the tiny model into `tmp_path`; options are given as they are typed."""

    def run(
        *options: str, methods: str = "none tv,dev=2,demos=3", tasks: str = "forward_upper3"
    ) -> int:
        return main(
            [
                *("--models", str(folder), "--methods", *methods.split()),
                *("--tasks", *tasks.split(), "--include_path", str(tasks_folder)),
                *("--limit", "4", "--batch_size", "4", "--output_path", str(tmp_path)),
                *options,
            ]
        )

    return run
