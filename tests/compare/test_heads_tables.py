from __future__ import annotations

from pathlib import Path

import pytest

from harness_ext import docs
from harness_ext.compare.heads_runs import ABLATED, ADDED, ICL, SETS, ZERO_SHOT, Arm, curves
from harness_ext.compare.heads_tables import (
    ablation_table,
    choices_section,
    choices_table,
    fraction_table,
    section,
    steering_table,
)
from harness_ext.compare.statistics import accuracy_interval, task_mean_interval
from harness_ext.compare.tables import NOTHING, interval
from harness_ext.errors import UsageError
from tests.compare.heads_output import grid, row, runs_of, write

TR, TL = ADDED["tr"], ADDED["tl"]
HALF = [1, 0, 1, 0]


def cells(table: str) -> dict[tuple[str, str], list[str]]:
    """The lines of a table by its first two columns."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(label, score): rest for label, score, *rest in split}


def test_a_cell_is_over_its_seeds_and_says_how_many_where_they_are_fewer(tmp_path: Path) -> None:
    rows = grid(["classify_topic"], range(3), [ZERO_SHOT, ICL, TR], lambda _: HALF)
    rows += [row("classify_topic", 2, TL, HALF)]
    table = steering_table(runs_of(tmp_path, rows))
    found = cells(table)["classify_topic", "accuracy"]
    one = interval(accuracy_interval([1, 0, 1, 0], [1] * 4))
    three = interval(accuracy_interval([3, 0, 3, 0], [3] * 4))
    assert found == [one, three, three, f"{one} (1 seed)", "missing", "missing"]
    assert table.endswith("Over 3 seeds where a cell says no other number.\n")


def test_the_mean_of_the_four_sets_stands_after_them_and_needs_them_all(tmp_path: Path) -> None:
    rows = grid([*SETS, "forward_upper"], [0, 1], [ICL, TR], lambda _: HALF)
    rows = [r for r in rows if (r["task"], r["steering"]["method"]) != (SETS[2], "tr")]
    rows += [row(SETS[2], 0, TL, HALF)]
    found = cells(steering_table(runs_of(tmp_path, rows)))
    assert list(found)[-4:] == [
        ("mean of the four sets", "accuracy"), ("mean of the four sets", "TR ratio"),
        ("forward_upper", "accuracy"), ("forward_upper", "TR ratio"),
    ]  # fmt: skip
    mean = interval(task_mean_interval([[(2, 2), (0, 2)] * 2] * 4))
    assert found["mean of the four sets", "accuracy"] == ["missing", mean, *["missing"] * 4]


def test_a_mean_over_different_numbers_of_seeds_says_so(tmp_path: Path) -> None:
    rows = grid(SETS, range(3), [TR], lambda _: HALF)[:-1]
    found = cells(steering_table(runs_of(tmp_path, rows)))
    assert found["mean of the four sets", "accuracy"][2].endswith("(2 to 3 seeds)")


def test_open_generation_has_its_own_score(tmp_path: Path) -> None:
    found = cells(steering_table(runs_of(tmp_path, [row("generate_negative", 0, TR, HALF)])))
    assert [score for task, score in found if task == "generate_negative"] == ["tone as asked"]


def test_the_intact_prompt_is_over_the_seeds_of_the_ablations(tmp_path: Path) -> None:
    rows = [row(SETS[0], seed, ICL, [int(seed < 2)] * 4) for seed in range(5)]
    rows += [
        row(SETS[0], seed, ABLATED["tr"], [0, 0, 0, 0], in_set=[0, 0, 0, 1]) for seed in range(2)
    ]
    rows += [row(SETS[0], 0, ABLATED["random"], [1, 1, 1, 1])]
    table = ablation_table(runs_of(tmp_path, rows))
    assert "| intact " in table
    found = cells(table)
    intact, tr, *others, random = found[SETS[0], "accuracy"]
    assert intact == interval(accuracy_interval([2] * 4, [2] * 4))
    assert tr == interval(accuracy_interval([0] * 4, [2] * 4))
    assert others == ["missing"] * 2
    assert random.endswith("(1 seed)")
    assert found[SETS[0], "TR ratio"][1] == interval(accuracy_interval([0, 0, 0, 2], [2] * 4))


def test_there_is_no_table_of_ablations_that_were_not_run(tmp_path: Path) -> None:
    assert ablation_table(runs_of(tmp_path, [row(SETS[0], 0, ICL, HALF)])) == ""


def test_the_table_of_a_curve_has_a_line_for_each_share(tmp_path: Path) -> None:
    rows = [row(SETS[0], 0, Arm("tr", fraction=share), HALF) for share in (0.01, 0.03, 0.2)]
    rows += [row(SETS[0], 0, Arm("random", fraction=share), HALF) for share in (0.03, 0.2)]
    (curve,) = curves(runs_of(tmp_path, rows))
    half = interval(accuracy_interval(HALF, [1] * 4))
    found = cells(fraction_table(curve))
    assert found["0.01", "1"] == [half, "missing"]
    assert found["0.2", "20"] == [half, half]


def test_the_table_of_choices_gives_their_range_over_seeds(tmp_path: Path) -> None:
    rows = [row(SETS[0], seed, TR, [1] * (seed + 1) + [0] * 3) for seed in [0]]
    rows += [row(SETS[1], seed, ADDED["random"], [1, 0, 0, seed]) for seed in range(2)]
    rows += [row(SETS[0], 0, Arm("tl", fraction=share), HALF) for share in (0.2, 0.1)]
    table = choices_table(runs_of(tmp_path, rows))
    assert [line.split("|")[3].strip() for line in table.splitlines() if "| TL" in line] == [
        "10", "20",
    ]  # fmt: skip
    found = cells(table)
    assert found[SETS[0], "TR"] == ["3", "3", "2.0", "0.50", "0.25", "1"]
    assert found[SETS[1], "random"] == [
        "3", "3 to 4", "2.0", "0.50 to 0.60", "0.25 to 0.50", "2",
    ]  # fmt: skip


def test_what_was_tested_and_with_what_is_said(tmp_path: Path) -> None:
    rows = [row(SETS[0], 0, TR, HALF), row("forward_upper", 0, ICL, HALF, repeats=2)]
    write(tmp_path, [rows[0], {**rows[1], "dtype": "bfloat16"}])
    line = (
        f"4 documents of {SETS[0]}; 4 documents over 2 queries of forward_upper; "
        "dtype bfloat16 / float32; version 1.2.3; development episodes 25.\n"
    )
    assert line in section(tmp_path)


def test_what_is_recovered_is_a_share_of_what_demonstrations_add(tmp_path: Path) -> None:
    right = {ZERO_SHOT: [0, 0, 0, 0], ICL: [1, 1, 1, 1], TR: [1, 1, 1, 0], TL: [1, 0, 0, 0]}
    write(tmp_path, grid(SETS, [0], right, lambda arm: right[arm]))
    assert "mean of the four sets, they add: TR 75 %, TL 25 %.\n" in section(tmp_path)


def test_the_picture_is_shown_where_there_is_a_curve(tmp_path: Path) -> None:
    rows = [row(SETS[0], 0, TR, HALF)]
    write(tmp_path, rows)
    assert "](there/fraction.svg)" not in section(tmp_path, "there/")
    write(tmp_path, [*rows, row(SETS[0], 0, Arm("tr", fraction=0.1), HALF)])
    assert "](there/fraction.svg)" in section(tmp_path, "there/")


def test_every_model_has_a_part_in_both_sections(tmp_path: Path) -> None:
    for model in ("one", "two"):
        write(tmp_path, [row(SETS[0], 0, TR, HALF)], model)
    assert [f"### {model}\n" in section(tmp_path) for model in ("one", "two")] == [True] * 2
    assert [f"#### {m}\n" in choices_section(tmp_path) for m in ("one", "two")] == [True] * 2


def test_the_pages_say_where_nothing_is_recorded_and_name_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    sections = (docs.heads_tables, docs.head_choices_tables)
    assert [make() for make in sections] == [NOTHING, NOTHING]
    (tmp_path / "results/heads").mkdir(parents=True)
    (tmp_path / "results/heads/tiny.jsonl").write_text('{"key"')
    for make in sections:
        with pytest.raises(UsageError, match=r"tiny\.jsonl, line 1"):
            make()
