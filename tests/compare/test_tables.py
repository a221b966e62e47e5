from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness_ext import docs
from harness_ext.compare.gap import MAPS, WordMap, accuracy, gap_change
from harness_ext.compare.record import record
from harness_ext.compare.runs import read_runs
from harness_ext.compare.statistics import Interval
from harness_ext.compare.tables import interval, markdown, section
from harness_ext.errors import UsageError
from harness_ext.packaged_models import MODELS
from tests.compare.output import Document, Right, answered, write_output

UPPER = WordMap("upper")
ANTONYM = WordMap("antonym", has_inverse=False)
TWO = (UPPER, ANTONYM)


def zero_shot(doc: Document) -> int:
    return 0


def icl(doc: Document) -> int:
    return doc["pair"] != "a3|A3" or doc["task"].startswith("bijection")


def tv(doc: Document) -> int:
    return doc["task"] in ("forward_upper", "inverse_upper") or doc["query"] == "a7"


SETTINGS: dict[tuple[str, int], Right] = {
    ("none", 0): zero_shot,
    ("none", 10): icl,
    ("tv", 0): tv,
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Recorded results of the model tiny: all settings of the maps upper and antonym."""
    tasks = [*UPPER.tasks, *ANTONYM.tasks]
    for (method, shots), right in SETTINGS.items():
        output = write_output(
            tmp_path / "out", answered(tasks, right, count=12, draws=2), method, shots
        )
        record([output], tmp_path / "results")
    return tmp_path / "results"


def rows(text: str, first: str) -> list[list[str]]:
    """The rows of the tables in the text whose first cell is `first`."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] == first]


def test_every_setting_of_a_map_is_a_row_of_accuracies(results: Path) -> None:
    runs = {(run.cell.method, run.cell.shots): run for run in read_runs(results)}
    table = rows(section(results, ["tiny"], TWO), "upper")
    for setting, cell, row in zip(("zero-shot", "ICL", "TV"), SETTINGS, table, strict=False):
        expected = [interval(accuracy(runs[cell].answers[task])) for task in UPPER.tasks]
        assert row[1:] == [setting, *expected]
    assert table[1][2] == "0.92 [0.61, 0.99]"


def test_a_map_has_a_row_with_its_gaps_and_the_verdict(results: Path) -> None:
    runs = {(run.cell.method, run.cell.shots): run for run in read_runs(results)}
    change = gap_change(runs["none", 10], runs["tv", 0], UPPER)
    row = rows(section(results, ["tiny"], TWO), "upper")[3]
    difference = interval(change.difference, signed=True)
    assert row[1:] == [interval(change.icl), interval(change.tv), difference, "wider with TV"]
    assert difference.startswith("+1.04 [")


def test_a_map_has_a_row_with_its_test_set_and_layers(results: Path) -> None:
    text = section(results, ["tiny"], TWO)
    upper, antonym = rows(text, "upper")[4], rows(text, "antonym")[4]
    assert upper[1:] == ["12", "24 / 24 / 48", "3 (0.00)", "4 (0.10)", "5 (0.20)"]
    assert antonym[1:] == ["12", "24 / – / 48", "6 (0.30)", "–", "7 (0.40)"]


def test_seeds_and_versions_are_stated(results: Path) -> None:
    text = section(results, ["tiny"], TWO)
    assert (
        "Recorded 2026-05-06; few-shot seed 1234; dtype float32; lm-eval 0.4.13; "
        "transformers 5.24.0; PyTorch 2.13.0+cpu; steering seed 0; demonstrations 10; "
        "development episodes 50.\n"
    ) in text


def test_settings_that_differ_between_runs_stand_side_by_side(results: Path) -> None:
    path = results / "tiny/none-10shot/results.json"
    content = json.loads(path.read_text())
    content["config"]["fewshot_seed"] = 7
    path.write_text(json.dumps(content))
    assert "few-shot seed 1234 / 7;" in section(results, ["tiny"], TWO)


def test_nothing_is_missing_where_all_is_recorded(results: Path) -> None:
    text = section(results, ["tiny"], TWO)
    assert "Not recorded" not in text
    assert "missing" not in text


def test_a_setting_that_is_not_recorded_is_said(results: Path) -> None:
    (results / "tiny/tv-0shot/results.json").unlink()
    text = section(results, ["tiny"], TWO)
    assert "**Not recorded:** TV (`method=tv`, `--num_fewshot 0`).\n" in text
    assert rows(text, "upper")[2] == ["upper", "TV", "missing", "missing", "missing"]
    assert rows(text, "upper")[3] == ["upper", "missing", "missing", "missing", "missing"]
    assert rows(text, "upper")[4][3:] == ["missing", "missing", "missing"]
    assert rows(text, "upper")[1][2] == "0.92 [0.61, 0.99]"


def test_a_task_that_is_not_recorded_is_said(results: Path) -> None:
    text = section(results, ["tiny"], [*TWO, WordMap("gerund")])
    missing = "forward_gerund, inverse_gerund, bijection_gerund"
    assert f"ICL (`method=none`, `--num_fewshot 10`) for {missing};" in text
    unknown = ["missing", "missing / missing / missing", "missing", "missing", "missing"]
    assert rows(text, "gerund")[4] == ["gerund", *unknown]


def test_a_model_without_results_is_said(results: Path) -> None:
    text = section(results, ["tiny", "other"], TWO)
    part = text.partition("### other\n")[2]
    assert part.count("`--num_fewshot") == 3
    assert "|" not in part


def test_a_broken_file_is_an_error_that_names_it(results: Path) -> None:
    path = results / "tiny/tv-0shot/samples.jsonl"
    path.write_text(path.read_text()[:-9])
    with pytest.raises(UsageError, match=str(path)):
        section(results, ["tiny"], TWO)


def test_settings_that_answer_different_documents_are_an_error(
    results: Path, tmp_path: Path
) -> None:
    tasks = [*UPPER.tasks, *ANTONYM.tasks]
    other = write_output(tmp_path / "other", answered(tasks, zero_shot, count=13), "none", 0)
    record([other], results)
    message = "forward_upper in tiny/none-0shot and forward_upper in tiny/none-10shot do not test"
    with pytest.raises(UsageError, match=message):
        section(results, ["tiny"], TWO)


def test_a_steered_task_without_a_layer_is_an_error_that_names_it(results: Path) -> None:
    path = results / "tiny/tv-0shot/results.json"
    content = json.loads(path.read_text())
    del content["config"]["steering"]["tasks"]["inverse_upper"]
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"tiny/tv-0shot.* no layer for inverse_upper"):
        section(results, ["tiny"], TWO)


def test_a_layer_that_was_given_has_no_development_accuracy(results: Path) -> None:
    path = results / "tiny/tv-0shot/results.json"
    content = json.loads(path.read_text())
    content["config"]["steering"]["tasks"]["inverse_upper"] = {"layer": 0}
    path.write_text(json.dumps(content))
    assert rows(section(results, ["tiny"], TWO), "upper")[4][4] == "0 (given)"


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [
        (Interval(0.934, 0.842, 0.9751), False, "0.93 [0.84, 0.98]"),
        (Interval(-0.15, -0.4, 0.06), True, "−0.15 [−0.40, 0.06]"),
        (Interval(0.15, -0.001, 0.3), True, "+0.15 [0.00, 0.30]"),
        (Interval(0.001, -0.1, 0.1), True, "0.00 [−0.10, 0.10]"),
        (Interval(1, 1, 1), False, "1.00 [1.00, 1.00]"),
    ],
)
def test_an_interval_is_written_compactly(value: Interval, signed: bool, text: str) -> None:
    assert interval(value, signed=signed) == text


def test_a_table_is_aligned_and_bars_in_cells_are_escaped() -> None:
    assert markdown(("map", "X→Y"), [("a|b", "1"), ("c", "long")]) == (
        "| map  | X→Y  |\n| ---- | ---- |\n| a\\|b | 1    |\n| c    | long |\n"
    )


def test_the_documentation_has_a_part_for_each_packaged_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    text = docs.results_tables()
    assert [line for line in text.splitlines() if line.startswith("### ")] == [
        f"### {model}" for model in MODELS
    ]


def test_the_maps_are_tasks_of_this_package() -> None:
    folder = Path(docs.ROOT, "tasks")
    for word_map in MAPS:
        found = [
            f"{direction}_{word_map.name}"
            for direction in ("forward", "inverse", "bijection")
            if (folder / direction / f"{word_map.name}.yaml").is_file()
        ]
        assert list(word_map.tasks) == found
