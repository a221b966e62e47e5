from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness_ext import docs
from harness_ext.compare.gap import WordMap
from harness_ext.compare.statistics import (
    Interval,
    accuracy_interval,
    mean_interval,
)
from harness_ext.compare.tables import (
    bullets_within,
    interval,
    markdown,
    markdown_within,
    section,
)
from harness_ext.errors import UsageError
from tests.compare.output import Document, Right, answered, write_output

TASKS = [*WordMap("upper").tasks, *WordMap("antonym").tasks]
PAIRS, DRAWS = 12, 2


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


def write(folder: Path, method: str, shots: int) -> Path:
    answers = answered(TASKS, SETTINGS[method, shots], count=PAIRS, draws=DRAWS)
    return write_output(folder / f"{method}-{shots}", answers, method, shots)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results of the model tiny: all settings of the maps upper and antonym."""
    for method, shots in SETTINGS:
        write(tmp_path, method, shots)
    return tmp_path


def rows(text: str, first: str) -> list[list[str]]:
    """The rows of the tables in the text whose first cell is `first`."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] == first]


def right(rule: Right, task: str) -> str:
    """The accuracy of a rule, counted by hand: by pair, all its documents."""
    by_pair: dict[str, list[int]] = {}
    for doc, score in answered([task], rule, PAIRS, DRAWS)[task]:
        by_pair.setdefault(doc["pair"], []).append(score)
    counts = list(by_pair.values())
    return interval(accuracy_interval([sum(own) for own in counts], [len(own) for own in counts]))


def test_every_setting_of_a_map_is_a_row_of_accuracies(results: Path) -> None:
    table = rows(section([results]), "upper")
    for name, rule, row in zip(
        ("zero-shot", "ICL (10)", "TV"), SETTINGS.values(), table, strict=False
    ):
        assert row[1:] == [name, *(right(rule, task) for task in WordMap("upper").tasks)]
    assert table[1][2] == "0.92 [0.61, 0.99]"


def test_a_map_has_a_row_with_its_gaps_and_the_verdict(results: Path) -> None:
    # ICL: pair 3 is wrong one way and right both ways. TV: right one way, half of pair 7 both ways.
    before, after = [0.0] * 11 + [-1.0], [1.0] * 11 + [0.5]
    changes = [1.0] * 10 + [0.5, 2.0]
    row = rows(section([results]), "upper")[3]
    difference = interval(mean_interval(changes, bound=2), signed=True)
    gaps = [interval(mean_interval(before)), interval(mean_interval(after))]
    assert row[1:] == [*gaps, difference, "shows"]
    assert difference.startswith("+1.04 [")


def test_the_mean_over_maps_has_a_row(results: Path) -> None:
    row = rows(section([results]), "mean of 2")[0]
    assert row[1].startswith("−0.08 [") and row[-1] == "shows"
    assert not rows(section([results], maps=["upper"]), "mean of 1")


def test_a_map_has_a_row_with_its_test_set_and_layers(results: Path) -> None:
    text = section([results])
    upper, antonym = rows(text, "upper")[4], rows(text, "antonym")[4]
    assert upper[1:] == ["12", "24 / 24 / 48", "3 (0.00)", "4 (0.10)", "5 (0.20)"]
    assert antonym[1:] == ["12", "24 / – / 48", "6 (0.30)", "–", "7 (0.40)"]


def test_a_layer_that_was_given_has_no_development_accuracy(results: Path) -> None:
    path = next(results.glob("tv-0/results_*.json"))
    content = json.loads(path.read_text())
    content["config"]["steering"]["tasks"]["inverse_upper"] = {"layer": 0}
    del content["config"]["steering"]["tasks"]["bijection_upper"]
    path.write_text(json.dumps(content))
    assert rows(section([results]), "upper")[4][4:] == ["0 (given)", "missing"]


def test_layers_of_several_seeds_stand_side_by_side(results: Path) -> None:
    path = write(results / "again", "tv", 0)
    content = json.loads(path.read_text())
    content["config"]["fewshot_seed"] = 7
    content["config"]["steering"]["tasks"]["forward_upper"]["layer"] = 9
    path.write_text(json.dumps(content))
    text = section([results])
    assert rows(text, "upper")[4][3] == "9 (0.00), 3 (0.00)"
    assert "few-shot seed 7 / 1234;" in text


def test_seeds_and_versions_are_stated(results: Path) -> None:
    assert (
        "Recorded 2026-05-06; few-shot seed 1234; dtype float32; lm-eval 0.4.13; "
        "transformers 5.24.0; PyTorch 2.13.0+cpu; steering seed 0; demonstrations 10; "
        "development episodes 50.\n"
    ) in section([results])


def test_nothing_is_missing_where_all_is_there(results: Path) -> None:
    text = section([results])
    assert "among these results" not in text
    assert "missing" not in text


def test_a_setting_that_was_not_evaluated_is_said(results: Path) -> None:
    next(results.glob("none-10/results_*.json")).unlink()
    text = section([results])
    assert (
        "**No ICL among these results (`method=none` or `hf` with `--num_fewshot 10`).**\n" in text
    )
    assert rows(text, "upper")[2] == ["upper", *["missing"] * 4]


def test_a_map_that_was_not_evaluated_is_missing_where_it_is_asked_for(results: Path) -> None:
    text = section([results], maps=["upper", "gerund"])
    assert rows(text, "gerund")[2] == ["gerund", "TV", "missing", "missing", "missing"]
    assert not rows(text, "antonym")


def test_documents_that_not_both_settings_answered_are_said(results: Path) -> None:
    answers = answered(TASKS, icl, count=PAIRS - 1, draws=DRAWS)
    for path in results.glob("none-10/*"):
        path.unlink()
    write_output(results / "none-10", answers, "none", 10)
    assert "**upper: 8 documents or pairs that are not in both settings" in section([results])


def test_models_stand_by_name_and_are_told_apart_by_their_dtype(results: Path) -> None:
    other = write_output(results / "other", answered(TASKS, tv), pretrained="packaged:another")
    coarse = write_output(results / "coarse", answered(TASKS, tv))
    content = json.loads(coarse.read_text())
    content["config"]["model_dtype"] = "torch.bfloat16"
    coarse.write_text(json.dumps(content))
    text = section([coarse.parent, results / "tv-0", other.parent])
    models = [line for line in text.splitlines() if line.startswith("### ")]
    assert models == ["### another", "### tiny · bfloat16", "### tiny · float32"]


def test_a_broken_file_is_an_error_that_names_it(results: Path) -> None:
    path = next(results.glob("tv-0/samples_forward_upper*"))
    path.write_text(path.read_text()[:-9])
    with pytest.raises(UsageError, match=str(path)):
        section([results])


def test_a_folder_without_a_task_vector_is_an_error(results: Path) -> None:
    with pytest.raises(UsageError, match="no map was evaluated with a task vector"):
        section([results / "none-10"])


def test_the_documentation_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    with pytest.raises(UsageError, match="smollm2-135m: there is no such file or folder"):
        docs.results_tables()


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


KINDS = {"same": "that show no difference", "better": "that are better", "worse": "that are worse"}


def long_table(limit: float) -> str:
    """500 rows: each tenth is better, each hundredth is worse."""
    kinds = ["worse" if n % 100 == 7 else "better" if n % 10 == 3 else "same" for n in range(500)]
    rows = [(f"task_{n}", kind) for n, kind in enumerate(kinds)]
    return markdown_within(limit, ("task", "outcome"), rows, kinds, KINDS)


def kept(text: str) -> list[str]:
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| task_")]


def test_a_table_that_fits_is_whole() -> None:
    whole = long_table(1e6)
    assert len(kept(whole)) == 500 and "…" not in whole
    assert long_table(len(whole)) == whole


def test_rows_without_a_difference_are_left_out_first_and_counted() -> None:
    text = long_table(5000)
    assert 4900 < len(text) <= 5000
    assert {f"task_{n}" for n in range(500) if n % 100 == 7 or n % 10 == 3} < set(kept(text))
    assert kept(text) == sorted(kept(text), key=lambda name: int(name[5:]))
    assert text.endswith(f"|\n\n… and {500 - len(kept(text))} tasks that show no difference\n")


def test_rows_of_other_kinds_follow_in_their_order() -> None:
    text = long_table(500)
    assert len(text) <= 500
    assert {"task_7", "task_107", "task_207", "task_307", "task_407"} < set(kept(text))
    better = 50 - (len(kept(text)) - 5)
    said = f"… and 445 tasks that show no difference, {better} tasks that are better\n"
    assert text.endswith(said)


def test_where_nothing_fits_all_is_counted() -> None:
    text = long_table(0)
    assert kept(text) == []
    assert text.endswith(
        "… and 445 tasks that show no difference, 50 tasks that are better, 5 tasks that are "
        "worse\n"
    )


def test_a_list_that_is_too_long_keeps_its_first_entries() -> None:
    sentences = [f"Note {n}." for n in range(100)]
    whole = bullets_within(1e6, sentences)
    assert whole.splitlines() == [f"- {sentence}" for sentence in sentences]
    assert bullets_within(len(whole), sentences) == whole
    text = bullets_within(200, sentences)
    assert 180 < len(text) <= 200
    *first, last = text.splitlines()
    assert first == whole.splitlines()[: len(first)]
    assert last == f"- … and {100 - len(first)} more"
