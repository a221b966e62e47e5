"""Golden regression: a small part of the recorded results is run afresh and compared with them.

Another processor may break ties between tokens otherwise, so that 2 % of the answers may differ. An
injection at a wrong place changes far more, which is checked by breaking it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness_ext import running
from harness_ext.commands import bench, compare
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.inject import Edit

pytestmark = pytest.mark.packaged

RESULTS = Path(__file__).resolve().parents[1] / "results"
RECORDED = RESULTS / "smollm2-135m"
MOST_CHANGED = "0.02"


@pytest.fixture(autouse=True)
def all_cores() -> Any:
    """Other tests, of tiny models, run on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    yield
    torch.set_num_threads(before)


def run(folder: Path, *options: str) -> None:
    assert bench.main([str(RESULTS / "golden.yaml"), "--output_path", str(folder), *options]) == 0


def compared(folder: Path, report: Path) -> tuple[int, dict[str, Any]]:
    """The exit status of the comparison with what is recorded, and all it found."""
    options = ["--allow-missing", "--max-changed", MOST_CHANGED, "--json", str(report)]
    status = compare.main([str(RECORDED), str(folder), *options])
    return status, json.loads(report.read_text())


def test_fresh_answers_are_the_recorded_ones(tmp_path: Path) -> None:
    run(tmp_path / "runs")
    status, found = compared(tmp_path / "runs", tmp_path / "report.json")
    assert len(found["comparisons"]) == 4
    assert [each["documents"] for each in found["comparisons"]] == [50] * 4
    assert status == 0, found["notes"]


def one_token_early(anatomy: Anatomy, edit: Edit) -> Edit:
    return replace(edit, position=edit.position - 1)


def one_layer_late(anatomy: Anatomy, edit: Edit) -> Edit:
    layer = min(edit.injection.layer + 1, len(anatomy.layers) - 1)
    return replace(edit, injection=replace(edit.injection, layer=layer))


@pytest.mark.parametrize("broken", [one_token_early, one_layer_late])
def test_a_broken_injection_is_found(
    broken: Callable[[Anatomy, Edit], Edit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = running.inject

    def inject(anatomy: Anatomy, edits: Sequence[Edit], rows: int) -> Any:
        return sound(anatomy, [broken(anatomy, edit) for edit in edits], rows)

    monkeypatch.setattr(running, "inject", inject)
    run(tmp_path / "runs", "--methods", "tv", "--shots", "0", "--tasks", "forward_gerund")
    status, found = compared(tmp_path / "runs", tmp_path / "report.json")
    assert status == 1
    assert found["changed_share"] > 5 * float(MOST_CHANGED)
