from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness_ext.compare.reading import read
from tests.compare.output import answered, write_output

TASKS = ("forward_upper", "inverse_upper")


def write(folder: Path, right: int = 1, date: float = 1.0, **options: object) -> Path:
    path = write_output(folder, answered(TASKS, lambda doc: right), **options)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "date": date}))
    return path


@pytest.mark.parametrize("hostile", ["1" + "0" * 400, "[" * 100_000])
@pytest.mark.parametrize("where", ["results", "samples"])
def test_numbers_and_nesting_without_bounds_are_told_and_not_raised(
    tmp_path: Path, hostile: str, where: str
) -> None:
    path = write_output(tmp_path / "out", answered(["forward_upper"], lambda doc: 1))
    if where == "samples":
        (path,) = path.parent.glob("samples_*")
    text = path.read_text()
    old = '"answer_match": 1.0' if where == "samples" else '"answer_match,none": 1.0'
    assert old in text
    path.write_text(text.replace(old, f"{old[:-3]}{hostile}", 1))
    assert read([tmp_path]).problems


def test_results_are_found_at_any_depth_and_as_files(tmp_path: Path) -> None:
    write(tmp_path / "a/b/c")
    other = write(tmp_path / "other", method="none")
    reading = read([tmp_path / "a", other])
    assert [(each.method, each.task) for each in reading.evaluations] == [
        (method, task) for method in ("tv", "none") for task in TASKS
    ]
    assert reading.problems == ()


def test_unfinished_folders_and_other_files_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / ".unfinished")
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "resultsish.json").write_text("{}")
    assert [problem.path for problem in read([tmp_path]).problems] == [tmp_path]


@pytest.mark.parametrize("name", ["", "nothing/here"])
def test_a_source_without_results_is_told(tmp_path: Path, name: str) -> None:
    (problem,) = read([tmp_path / name]).problems
    assert problem.path == tmp_path / name and problem.unused


def test_a_source_given_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path)
    reading = read([tmp_path, tmp_path, tmp_path / "."])
    assert len(reading.evaluations) == 2 and not reading.problems


def test_the_latest_of_equal_evaluations_is_used_and_the_other_told_once(tmp_path: Path) -> None:
    late = write(tmp_path / "a", right=1, date=2.0)
    early = write(tmp_path / "b", right=0, date=1.0)
    reading = read([tmp_path])
    assert {each.path for each in reading.evaluations} == {late}
    (problem,) = reading.problems
    assert problem.path == early and str(late) in problem.message
    assert "forward_upper, inverse_upper: also in" in problem.message


def test_evaluations_that_differ_in_a_setting_are_no_duplicates(tmp_path: Path) -> None:
    write(tmp_path / "a")
    path = write(tmp_path / "b")
    content = json.loads(path.read_text())
    content["config"]["model_dtype"] = "torch.bfloat16"
    path.write_text(json.dumps(content))
    assert len(read([tmp_path]).evaluations) == 4


@pytest.mark.parametrize(
    ("keys", "value", "kept"),
    [
        (("config", "gen_kwargs"), {"temperature": 0.7}, 4),
        (("chat_template",), "{{ messages }}", 4),
        (("system_instruction",), "Be brief.", 4),
        (("config", "steering", "arguments", "seed"), 7, 4),
        (("versions",), {"forward_upper": 2.0}, 2),
    ],
)
def test_runs_that_were_asked_otherwise_are_no_duplicates(
    tmp_path: Path, keys: tuple[str, ...], value: object, kept: int
) -> None:
    write(tmp_path / "a", date=2.0)
    path = write(tmp_path / "b")
    content = json.loads(path.read_text())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(content))
    reading = read([tmp_path])
    assert len(reading.evaluations) == kept
    if kept == 2:
        (problem,) = reading.problems
        assert "with another version of the task" in problem.message
        assert "Versions here: forward_upper 2.0, there None." in problem.message


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/runs")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/linked").symlink_to(tmp_path / "elsewhere/runs")
    (tmp_path / "here/circle").symlink_to(tmp_path / "here")
    reading = read([tmp_path / "here"])
    assert len(reading.evaluations) == 2 and not reading.problems


def test_a_link_to_a_results_file_is_the_file_itself(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "results_latest.json").symlink_to(path.name)
    reading = read([tmp_path])
    assert {each.path for each in reading.evaluations} == {path}
    assert all(each.samples for each in reading.evaluations) and not reading.problems


def test_of_two_copies_the_one_with_samples_is_used(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / path.name).write_bytes(path.read_bytes())
    assert all(each.samples for each in read([tmp_path]).evaluations)


def test_a_folder_that_cannot_be_looked_into_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "open")
    write(tmp_path / "shut")
    scan = os.scandir

    def refuse(folder: str) -> object:  # an administrator may look everywhere
        if str(folder).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    reading = read([tmp_path])
    assert len(reading.evaluations) == 2
    (problem,) = reading.problems
    assert problem.path == tmp_path / "shut" and problem.unused


def test_a_named_pipe_is_no_file_to_wait_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "results_1.json")
    (problem,) = read([tmp_path]).problems
    assert problem.message == "no file that can be read."


def test_seeds_of_steering_are_a_setting_where_they_are_all_that_differs(tmp_path: Path) -> None:
    for seed in (1, 2):
        path = write(tmp_path / str(seed))
        content = json.loads(path.read_text())
        content["config"]["steering"]["arguments"]["seed"] = seed
        path.write_text(json.dumps(content))
    seeds = [each.settings["steering seed"] for each in read([tmp_path]).evaluations]
    assert seeds == [1, 1, 2, 2]
    alone = read([tmp_path / "1"]).evaluations
    assert all("steering seed" not in each.settings for each in alone)


def test_files_that_were_given_a_name_are_found_with_their_samples(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.rename(tmp_path / path.name.replace("results_", "of_mine_"))
    reading = read([tmp_path])
    assert [each.documents for each in reading.evaluations] == [4, 4]
    assert all(each.samples for each in reading.evaluations)


def test_one_broken_file_costs_no_other(tmp_path: Path) -> None:
    write(tmp_path / "a")
    (tmp_path / "results_1.json").write_text("{")
    reading = read([tmp_path])
    assert len(reading.evaluations) == 2 and len(reading.problems) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.chmod(0)
    assert "cannot be read" in read([tmp_path]).problems[0].message
