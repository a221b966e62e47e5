from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness_ext.compare.record import record
from harness_ext.compare.shots import mean_accuracy, mean_difference, read_models
from harness_ext.compare.statistics import task_mean_interval
from harness_ext.errors import UsageError
from tests.compare.output import answered, write_output
from tests.compare.shot_runs import TASKS, cells


def test_a_pair_is_one_cluster_in_all_tasks_that_have_it(recorded_shots: Path) -> None:
    tasks = ["bijection_upper", "forward_upper"]
    found = mean_accuracy(cells(recorded_shots, "none", 1, tasks))
    both, one = [(2, 2), (0, 2), (0, 2)] * 4, [(1, 1), (0, 1), (0, 1)] * 4
    pairs = [f"a{number}|A{number}" for number in range(12)]
    assert found == task_mean_interval([both, one], names=[pairs, pairs])
    assert found.estimate == pytest.approx(1 / 3)


def test_a_difference_is_paired_by_document(recorded_shots: Path) -> None:
    tv, none = (cells(recorded_shots, method, 1, ["forward_upper"]) for method in ("tv", "none"))
    found = mean_difference(tv, none)
    assert found == task_mean_interval([[(0, 1), (1, 1), (1, 1)] * 4], (-1, 1))


def test_another_dtype_is_another_model(shots: Path) -> None:
    for path in sorted(shots.glob("tiny/*/results.json")):
        content = json.loads(path.read_text())
        content["config"]["model_dtype"] = "torch.bfloat16"
        copy = shots / "tiny-bfloat16" / path.parent.name
        copy.mkdir(parents=True)
        (copy / "results.json").write_text(json.dumps(content))
        (copy / "samples.jsonl").write_bytes((path.parent / "samples.jsonl").read_bytes())
    assert [model.model for model in read_models(shots)] == ["tiny", "tiny, bfloat16"]


def test_cells_that_answer_different_documents_are_an_error(
    shots: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("other")
    other = write_output(folder, answered(TASKS, lambda doc: 0, 13), "tv", 2)
    record([other], shots)
    with pytest.raises(UsageError, match="do not test the same documents"):
        read_models(shots)
