from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness_ext import cli
from harness_ext.commands.compare import main
from harness_ext.errors import UsageError
from tests.compare.output import Right, answered, write_output

TASKS = ("forward_upper", "bijection_upper")


def side(folder: Path, right: Right, tasks: tuple[str, ...] = TASKS, method: str = "tv") -> Path:
    write_output(folder / method, answered(tasks, right, count=40), method)
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return side(tmp_path / "base", lambda doc: 1)


@pytest.fixture
def worse(tmp_path: Path) -> Path:
    """Every fourth pair of one task is lost."""
    return side(
        tmp_path / "worse",
        lambda doc: int(
            doc["task"] != "forward_upper" or int(doc["pair"].split("|")[0][1:]) % 4 > 0
        ),
    )


def test_the_same_again_is_no_regression(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(base), str(base)]) == 0
    assert "2 comparisons: no difference shown." in capsys.readouterr().out


def test_a_regression_has_status_1_and_improvement_0(base: Path, worse: Path) -> None:
    assert main([str(base), str(worse)]) == 1
    assert main([str(worse), str(base)]) == 0
    assert main([str(base), str(worse), "--max-drop", "0.25"]) == 0
    assert main([str(base), str(worse), "--tasks", "bijection_*"]) == 0


def test_tolerances_are_read_by_task(base: Path, worse: Path, tmp_path: Path) -> None:
    path = tmp_path / "drops.yaml"
    path.write_text("forward_*: 0.3\n")
    assert main([str(base), str(worse), "--per-task", str(path)]) == 0
    path.write_text("forward_*: 0.1\n")
    assert main([str(base), str(worse), "--per-task", str(path)]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "has to hold a drop for every task"),
        ("a: b", "a: 'b' is not a drop"),
        ("a: -1", "a: -1 is not a drop"),
        ("a: [", "is not YAML"),
    ],
)
def test_bad_tolerances_are_refused(base: Path, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "drops.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        main([str(base), str(base), "--per-task", str(path)])


def test_what_new_lacks_is_not_passed_over(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = side(tmp_path / "new", lambda doc: 1, tasks=TASKS[:1])
    assert main([str(base), str(new)]) == 2
    out = capsys.readouterr()
    assert "Only in BASE, not compared: bijection_upper." in out.out
    assert "--allow-missing" in out.err
    assert main([str(base), str(new), "--allow-missing"]) == 0
    assert main([str(new), str(base)]) == 0


def test_documents_that_new_lacks_are_not_passed_over(base: Path, tmp_path: Path) -> None:
    write_output(tmp_path / "new", answered(TASKS, lambda doc: 1, count=30), "tv")
    assert main([str(base), str(tmp_path / "new")]) == 2
    assert main([str(base), str(tmp_path / "new"), "--allow-missing"]) == 0
    assert main([str(tmp_path / "new"), str(base)]) == 0


def test_nothing_in_common_is_status_2_even_where_missing_is_allowed(
    base: Path, tmp_path: Path
) -> None:
    new = side(tmp_path / "new", lambda doc: 1, tasks=("inverse_upper",))
    assert main([str(base), str(new), "--allow-missing"]) == 2


def test_methods_of_one_folder_are_compared(tmp_path: Path) -> None:
    folder = side(tmp_path / "all", lambda doc: 1)
    side(folder, lambda doc: 0, method="tv_m")
    options = ["--base-method", "tv", "--new-method", "tv_m"]
    assert main([str(folder), str(folder), *options]) == 1


def test_damaged_files_are_named_and_the_rest_is_compared(
    base: Path, worse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (base / "results_broken.json").write_text('{"results": {')
    assert main([str(base), str(worse)]) == 1
    assert "results_broken.json: cut off, or not JSON" in capsys.readouterr().err


def test_a_problem_is_told_once_where_both_sides_are_one_folder(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (base / "results_broken.json").write_text('{"results": {')
    assert main([str(base), str(base)]) == 2
    assert capsys.readouterr().err.count("results_broken.json") == 1


def test_half_a_surrogate_pair_is_written_as_its_code(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = side(tmp_path / "new", lambda doc: 0)
    for path in (new / "tv").glob("samples_*.jsonl"):
        path.write_text(path.read_text().replace(" no → idea", " no \\ud800"))
    paths = {name: tmp_path / f"out.{name}" for name in ("markdown", "json", "junit")}
    options = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    assert main([str(base), str(new), *options]) == 1
    found = json.loads(paths["json"].read_text(encoding="utf-8"))
    assert "\ud800" in found["comparisons"][0]["flips"][0]["new"]
    ElementTree.parse(paths["junit"])
    assert "\\ud800" in paths["markdown"].read_text(encoding="utf-8")


def test_a_damaged_file_is_not_passed_over(base: Path) -> None:
    (base / "results_broken.json").write_text('{"results": {')
    assert main([str(base), str(base)]) == 2
    assert main([str(base), str(base), "--allow-missing"]) == 0


def test_a_file_that_could_not_be_used_is_told_where_the_result_is(
    base: Path, tmp_path: Path
) -> None:
    (base / "results_broken.json").write_text("{")
    paths = [tmp_path / "comment.md", tmp_path / "all.json"]
    main([str(base), str(base), "--markdown", str(paths[0]), "--json", str(paths[1])])
    assert "⚠️" in paths[0].read_text() and "Not all files could be used" in paths[0].read_text()
    assert json.loads(paths[1].read_text())["incomparable"] == "not all files could be used"


def test_a_task_that_was_run_twice_is_no_reason_to_refuse(base: Path, tmp_path: Path) -> None:
    side(base / "again", lambda doc: 1)
    assert main([str(base), str(base)]) == 0


def test_a_closed_pipe_is_no_regression(base: Path) -> None:
    command = (
        f"{sys.executable} -m harness_ext compare {base} {base} | true; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_defect_is_no_regression(
    base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("harness_ext.commands.compare.pair", fail)
    assert cli.main(["compare", str(base), str(base)]) == 2
    assert "ZeroDivisionError: a defect" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--markdown", "--json", "--junit"])
def test_a_file_that_cannot_be_written_is_no_regression(
    base: Path, worse: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "missing" / "out"
    assert cli.main(["compare", str(base), str(worse), option, str(place)]) == 2
    said = f"taskvec: error: {option} {place}: cannot be written (No such file or directory).\n"
    assert capsys.readouterr().err == said


def test_files_are_written_for_people_and_programs(base: Path, worse: Path, tmp_path: Path) -> None:
    paths = {name: tmp_path / f"out.{name}" for name in ("markdown", "json", "junit")}
    options = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    assert main([str(base), str(worse), *options, "--show", "1", "--all-flips"]) == 1
    assert "lost by NEW (10 of 10)" in paths["markdown"].read_text()
    assert len(json.loads(paths["json"].read_text())["comparisons"][0]["flips"]) == 10
    assert ElementTree.parse(paths["junit"]).getroot().get("failures") == "1"


def test_a_mistake_is_one_line_and_status_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness_ext", "compare", str(tmp_path / "a"), str(tmp_path / "b")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "BASE" in done.stderr.splitlines()[-1]


def test_nothing_heavy_is_imported_for_a_comparison(base: Path) -> None:
    code = (
        "import sys; from harness_ext.commands.compare import main; "
        f"status = main([{str(base)!r}, {str(base)!r}]); "
        "assert not {'torch', 'lm_eval', 'transformers'} & set(sys.modules); sys.exit(status)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_an_earlier_report_does_not_stand_for_a_comparison_that_came_to_none(
    base: Path, tmp_path: Path
) -> None:
    reports = {
        option: tmp_path / f"report{option}" for option in ("--json", "--junit", "--markdown")
    }
    given = [text for option, path in reports.items() for text in (option, str(path))]
    assert main([str(base), str(base), *given]) == 0
    assert all(path.exists() for path in reports.values())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="there is nothing to show"):
        main([str(base), str(tmp_path / "empty"), *given])
    assert not any(path.exists() for path in reports.values())


def test_two_reports_in_one_file_are_refused(base: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "report")
    with pytest.raises(UsageError, match=f"--markdown and --junit name one file, {path}"):
        main([str(base), str(base), "--markdown", path, "--junit", path])
