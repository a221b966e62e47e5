from __future__ import annotations

import json
from pathlib import Path

from harness_ext.compare.shots import mean_accuracy, mean_difference
from harness_ext.compare.shots_tables import section, tasks_section
from harness_ext.compare.tables import interval
from tests.compare.shot_runs import cells
from tests.compare.test_tables import rows


def test_a_group_has_a_row_of_accuracies_and_one_of_differences_per_shots(
    recorded_shots: Path,
) -> None:
    text = section(recorded_shots)
    bijection, difference, *forward = rows(text, "3")
    own = [cells(recorded_shots, method, 3) for method in ("none", "tv", "tv_m", "tv_ms")]
    assert bijection[1:] == [interval(mean_accuracy(each), digits=3) for each in own]
    compared = [(own[1], own[0]), (own[2], own[1]), (own[3], own[1])]
    expected = [mean_difference(*pair) for pair in compared]
    assert difference[1:] == [interval(d, signed=True, digits=3) for d in expected]
    assert len(forward) == 2
    assert "Mean over 2 `bijection_*` tasks, 48 documents: past, upper.\n" in text


def test_without_shots_the_methods_are_one(recorded_shots: Path) -> None:
    accuracies, differences, *_ = rows(section(recorded_shots), "0")
    assert accuracies[3:] == ["= TaskV", "= TaskV"]
    assert differences[2:] == ["–", "–"]


def test_each_claim_has_a_sentence_that_follows_from_the_intervals(
    recorded_shots: Path,
) -> None:
    text = section(recorded_shots).partition("Mean over 1 `forward_*`")[0]
    assert (
        "- TaskV above baseline at 0 to 4 shots (the paper: at every number of shots): "
        "shows at 0, 1 and 2, does not show at 3 and 4 shots.\n"
    ) in text
    assert "Llama-13B): does not show at 1, 2, 3 and 4 shots.\n- TaskV-MS" in text
    assert "Llama-13B): the other way at 1 and 2, does not show at 3 and 4 shots.\n" in text


def drop(shots: Path, cell: str, task: str) -> None:
    """Take a task out of a recorded cell."""
    folder = shots / "tiny" / cell
    content = json.loads((folder / "results.json").read_text())
    for key in ("configs", "n-shot", "n-samples"):
        del content[key][task]
    (folder / "results.json").write_text(json.dumps(content))
    lines = (folder / "samples.jsonl").read_text().split("\n")
    kept = [line for line in lines if f'"task": "{task}"' not in line]
    (folder / "samples.jsonl").write_text("\n".join(kept))


def test_a_task_that_a_cell_lacks_is_left_out_of_the_means_and_named(shots: Path) -> None:
    drop(shots, "tv_m-2shot-seed1234", "bijection_past")
    text = section(shots)
    assert "Mean over 1 `bijection_*` tasks, 24 documents: upper.\n" in text
    assert "**Left out, not recorded in every cell:** bijection_past.\n" in text
    table = rows(tasks_section(shots), "bijection_past")
    assert table[2][4] == table[2][7] == "missing"
    assert "missing" not in table[1]


def test_a_cell_that_is_not_recorded_is_named(shots: Path) -> None:
    for number in (2, 4):
        (shots / f"tiny/tv_m-{number}shot-seed1234/results.json").unlink()
    text = section(shots)
    assert "**Not recorded:** TaskV-M (`method=tv_m`) at 2 and 4 shots.\n" in text
    assert "No `forward_*` task is recorded in every cell, so there is no mean.\n" in text
    assert "| " not in text


def test_a_group_of_which_nothing_is_recorded_is_not_spoken_of(recorded_shots: Path) -> None:
    assert "inverse" not in section(recorded_shots)


def test_each_task_has_a_row_per_shots_with_the_layers(recorded_shots: Path) -> None:
    table = rows(tasks_section(recorded_shots), "forward_upper")
    assert [row[1] for row in table] == ["0", "1", "2", "3", "4"]
    assert table[0][2:] == [
        *(
            interval(cells(recorded_shots, method, 0, ["forward_upper"])[0].score.interval)
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


def test_the_legend_says_how_layers_are_chosen_here_and_in_the_paper(
    recorded_shots: Path,
) -> None:
    text = section(recorded_shots).replace("\n", " ")
    assert "Layers are chosen on development episodes here; the paper's Table 2 gives" in text
