from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness_ext import cli, theory
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
