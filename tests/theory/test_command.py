from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness_ext import cli, theory
from harness_ext.errors import UsageError
from harness_ext.theory import checks

from .toy import Squares, Surprise


@pytest.fixture(autouse=True)
def toy_checks(monkeypatch):
    for module in (theory, checks):
        monkeypatch.setattr(module, "CHECKS", (Squares(), Surprise()))


def taskvec(*arguments: object) -> int:
    return cli.main(["theory", *map(str, arguments)])


def test_a_run_that_ends_as_recorded_exits_with_0(tmp_path, capsys) -> None:
    assert taskvec("run", "squares", "--out", tmp_path, "--jobs", 1) == 0
    assert (tmp_path / "squares" / "figures.json").exists()
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert verdicts["preset"] == {"name": "quick", "seeds": None}
    assert verdicts["checks"]["squares"]["grow"]["verdict"] == "holds"
    captured = capsys.readouterr()
    assert "holds" in captured.out
    assert "cell" not in captured.err  # no progress bar where nobody looks


def test_a_claim_that_ends_otherwise_exits_with_1_and_is_named(tmp_path, capsys) -> None:
    assert taskvec("run", "all", "--out", tmp_path, "--jobs", 1) == 1
    assert (
        "surprise: claim grow ended as 'holds', recorded is 'does not hold'"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "square"], "unknown check 'square'; did you mean squares"),
        (["run", "square"], "unknown check 'square'; did you mean squares"),
        (["run", "all", "--preset", "papers"], "unknown preset 'papers'; did you mean paper"),
        (["run", "all", "--seeds", 0], "--seeds is 0"),
        (["run", "all", "--jobs", 0], "--jobs is 0"),
        (["run", "all", "--out", "/dev/null/x"], "cannot write to the output folder"),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(
    arguments, message, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert taskvec(*arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--jobs", 0], ["--backend", "dask"], ["--address", "tcp://host:1"], ["--seeds", 0]],
)
def test_a_refused_command_does_not_claim_the_folder(arguments, tmp_path) -> None:
    folder = tmp_path / "out"
    assert taskvec("run", "squares", "--out", folder, *arguments) == 2
    assert not folder.exists()


def test_settings_a_check_refuses_do_not_claim_the_folder(tmp_path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("too few seeds")

    monkeypatch.setattr(Squares, "cells", refuse)
    assert taskvec("run", "squares", "--out", tmp_path / "out", "--jobs", 1) == 2
    assert not (tmp_path / "out").exists()


def test_a_dead_cluster_does_not_claim_the_folder(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("harness_ext.theory.runner.CONNECT_SECONDS", 1)
    options = "--backend", "dask", "--address", "tcp://127.0.0.1:9"
    assert taskvec("run", "squares", "--out", tmp_path / "out", *options) == 2
    assert "no Dask scheduler answers" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["squares", "squares/cells", "squares/figures.json"])
def test_something_in_the_way_is_refused_before_anything_is_measured(
    name, tmp_path, monkeypatch, capsys
) -> None:
    def measure(*_: object) -> None:
        raise AssertionError("must not be reached")

    monkeypatch.setattr(Squares, "measure", measure)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    if name.endswith("json"):
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("")
    assert taskvec("run", "squares", "--out", tmp_path, "--jobs", 1) == 2
    assert str(tmp_path / name) in capsys.readouterr().err


def test_a_damaged_cell_is_measured_again(tmp_path) -> None:
    assert taskvec("run", "squares", "--out", tmp_path, "--jobs", 1) == 0
    before = (tmp_path / "squares" / "figures.json").read_bytes()
    cell = next((tmp_path / "squares" / "cells").iterdir())
    whole = cell.read_bytes()
    cell.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="damaged"):
        assert taskvec("run", "squares", "--out", tmp_path, "--jobs", 1) == 0
    assert cell.read_bytes() == whole
    assert (tmp_path / "squares" / "figures.json").read_bytes() == before


def test_a_later_run_of_fewer_checks_keeps_the_verdicts_of_the_others(tmp_path) -> None:
    taskvec("run", "all", "--out", tmp_path, "--jobs", 1)
    before = json.loads((tmp_path / "verdicts.json").read_text())
    taskvec("run", "squares", "--out", tmp_path, "--jobs", 1)
    assert json.loads((tmp_path / "verdicts.json").read_text()) == before


def test_a_folder_of_another_run_is_refused(tmp_path, capsys) -> None:
    taskvec("run", "squares", "--out", tmp_path, "--jobs", 1)
    assert taskvec("run", "squares", "--out", tmp_path, "--seeds", 2) == 2
    assert "seeds is the check's own there and 2 here" in capsys.readouterr().err


def test_checks_are_listed(capsys) -> None:
    assert taskvec("list") == 0
    assert "squares" in capsys.readouterr().out


def test_a_named_check_is_described_in_full(capsys) -> None:
    assert taskvec("list", "squares") == 0
    assert "none needed" in capsys.readouterr().out


def test_the_command_line_starts_without_torch_or_matplotlib() -> None:
    code = (
        "import sys, harness_ext.cli, harness_ext.commands.theory; "
        "print([m for m in ('torch', 'matplotlib', 'harness_ext.theory') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
