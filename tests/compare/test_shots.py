from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness_ext.compare.board_cells import Cell
from harness_ext.compare.record import record
from harness_ext.compare.shots import (
    METHODS,
    mean_accuracy,
    mean_difference,
    read_models,
    section,
    tasks_section,
)
from harness_ext.compare.statistics import task_mean_interval
from harness_ext.compare.tables import interval
from harness_ext.errors import UsageError
from tests.compare.output import Right, answered, write_output
from tests.compare.test_tables import rows

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


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every cell of the model tiny on three tasks."""
    folder = tmp_path_factory.mktemp("shots")
    for method, shots in CELLS:
        answers = answered(TASKS, right_in(method, shots), count=12)
        write_output(folder / f"out/{method}{shots}", answers, method, shots)
    record([folder / "out"], folder / "results")
    return folder / "results"


@pytest.fixture
def results(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the recorded cells that a test may change."""
    for path in recorded.glob("*/*/*"):
        copy = tmp_path / path.relative_to(recorded)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path


def cells(folder: Path, method: str, shots: int, tasks: Sequence[str] = BIJECTIONS) -> list[Cell]:
    name = next(name for name, known in METHODS.items() if known == method)
    (model,) = read_models(folder)
    return model.of(name, shots, tasks)


def test_a_pair_is_one_cluster_in_all_tasks_that_have_it(recorded: Path) -> None:
    tasks = ["bijection_upper", "forward_upper"]
    found = mean_accuracy(cells(recorded, "none", 1, tasks))
    both, one = [(2, 2), (0, 2), (0, 2)] * 4, [(1, 1), (0, 1), (0, 1)] * 4
    pairs = [f"a{number}|A{number}" for number in range(12)]
    assert found == task_mean_interval([both, one], names=[pairs, pairs])
    assert found.estimate == pytest.approx(1 / 3)


def test_a_difference_is_paired_by_document(recorded: Path) -> None:
    tv, none = (cells(recorded, method, 1, ["forward_upper"]) for method in ("tv", "none"))
    found = mean_difference(tv, none)
    assert found == task_mean_interval([[(0, 1), (1, 1), (1, 1)] * 4], (-1, 1))


def test_a_group_has_a_row_of_accuracies_and_one_of_differences_per_shots(recorded: Path) -> None:
    text = section(recorded)
    bijection, difference, *forward = rows(text, "3")
    own = [cells(recorded, method, 3) for method in ("none", "tv", "tv_m", "tv_ms")]
    assert bijection[1:] == [interval(mean_accuracy(each), digits=3) for each in own]
    compared = [(own[1], own[0]), (own[2], own[1]), (own[3], own[1])]
    expected = [mean_difference(*pair) for pair in compared]
    assert difference[1:] == [interval(d, signed=True, digits=3) for d in expected]
    assert len(forward) == 2
    assert "Mean over 2 `bijection_*` tasks, 48 documents: past, upper.\n" in text


def test_without_shots_the_methods_are_one(recorded: Path) -> None:
    accuracies, differences, *_ = rows(section(recorded), "0")
    assert accuracies[3:] == ["= TaskV", "= TaskV"]
    assert differences[2:] == ["–", "–"]


def test_each_claim_has_a_sentence_that_follows_from_the_intervals(recorded: Path) -> None:
    text = section(recorded).partition("Mean over 1 `forward_*`")[0]
    assert (
        "- TaskV above baseline at 0 to 4 shots (the paper: at every number of shots): "
        "shows at 0, 1 and 2, does not show at 3 and 4 shots.\n"
    ) in text
    assert "Llama-13B): does not show at 1, 2, 3 and 4 shots.\n- TaskV-MS" in text
    assert "Llama-13B): the other way at 1 and 2, does not show at 3 and 4 shots.\n" in text


def drop(results: Path, cell: str, task: str) -> None:
    """Take a task out of a recorded cell."""
    folder = results / "tiny" / cell
    content = json.loads((folder / "results.json").read_text())
    for key in ("configs", "n-shot", "n-samples"):
        del content[key][task]
    (folder / "results.json").write_text(json.dumps(content))
    lines = (folder / "samples.jsonl").read_text().split("\n")
    kept = [line for line in lines if f'"task": "{task}"' not in line]
    (folder / "samples.jsonl").write_text("\n".join(kept))


def test_a_task_that_a_cell_lacks_is_left_out_of_the_means_and_named(results: Path) -> None:
    drop(results, "tv_m-2shot-seed1234", "bijection_past")
    text = section(results)
    assert "Mean over 1 `bijection_*` tasks, 24 documents: upper.\n" in text
    assert "**Left out, not recorded in every cell:** bijection_past.\n" in text
    table = rows(tasks_section(results), "bijection_past")
    assert table[2][4] == table[2][7] == "missing"
    assert "missing" not in table[1]


def test_a_cell_that_is_not_recorded_is_named(results: Path) -> None:
    for shots in (2, 4):
        (results / f"tiny/tv_m-{shots}shot-seed1234/results.json").unlink()
    text = section(results)
    assert "**Not recorded:** TaskV-M (`method=tv_m`) at 2 and 4 shots.\n" in text
    assert "No `forward_*` task is recorded in every cell, so there is no mean.\n" in text
    assert "| " not in text


def test_another_dtype_is_another_model(results: Path) -> None:
    for path in sorted(results.glob("tiny/*/results.json")):
        content = json.loads(path.read_text())
        content["config"]["model_dtype"] = "torch.bfloat16"
        copy = results / "tiny-bfloat16" / path.parent.name
        copy.mkdir(parents=True)
        (copy / "results.json").write_text(json.dumps(content))
        (copy / "samples.jsonl").write_bytes((path.parent / "samples.jsonl").read_bytes())
    assert [model.model for model in read_models(results)] == ["tiny", "tiny, bfloat16"]
    assert "#### tiny\n" in section(results) and "#### tiny, bfloat16\n" in section(results)


def test_a_group_of_which_nothing_is_recorded_is_not_spoken_of(recorded: Path) -> None:
    assert "inverse" not in section(recorded)


def test_each_task_has_a_row_per_shots_with_the_layers(recorded: Path) -> None:
    table = rows(tasks_section(recorded), "forward_upper")
    assert [row[1] for row in table] == ["0", "1", "2", "3", "4"]
    assert table[0][2:] == [
        *(
            interval(cells(recorded, method, 0, ["forward_upper"])[0].score.interval)
            for method in ("none", "tv")
        ),
        "= TaskV",
        "= TaskV",
        "5 (0.20)",
        "= TaskV",
        "= TaskV",
    ]
    assert table[4][5].startswith("0.00 [0.00, ")
    assert table[4][6:] == ["5 (0.20)"] * 3


def test_cells_that_answer_different_documents_are_an_error(
    results: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("other")
    other = write_output(folder, answered(TASKS, lambda doc: 0, 13), "tv", 2)
    record([other], results)
    with pytest.raises(UsageError, match="do not test the same documents"):
        section(results)


def test_the_legend_says_how_layers_are_chosen_here_and_in_the_paper(recorded: Path) -> None:
    text = section(recorded).replace("\n", " ")
    assert "Layers are chosen on development episodes here; the paper's Table 2 gives" in text
