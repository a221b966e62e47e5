"""Names of tasks, configuration files, and mistakes that show during the run only."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness_ext import preflight
from tests.preflight.conftest import arguments, message_of


@pytest.mark.parametrize(
    "tasks",
    [
        ["bijection_upper"],
        ["bijection_upper", "stock_task"],
        ["forward_up*"],
        ["taskvec_inverse"],
        "bijection_upper,forward_upper",
    ],
)
def test_known_tasks_pass(tasks: Any) -> None:
    preflight.check(arguments(tasks=tasks))


def test_a_users_tasks_pass(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("task: my_task\ndataset_path: json\n")
    preflight.check(arguments(tasks=["my_task"], include_path=str(tmp_path)))
    preflight.check(arguments(tasks=[str(tmp_path / "mine.yaml")]))
    preflight.check(arguments(tasks=[str(tmp_path / "*.yaml")]))
    preflight.check(arguments(tasks=[str(tmp_path)]))


def test_an_unknown_task_is_named_with_its_nearest_names() -> None:
    message = message_of(tasks=["stock_task", "bijection_uper"])
    assert "bijection_uper " in message
    assert "bijection_upper" in message
    assert "stock_task" not in message


def test_a_missing_task_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.yaml")
    assert missing in message_of(tasks=[missing])


@pytest.mark.parametrize("tasks", [None, [], ""])
def test_no_task_is_a_mistake(tasks: Any) -> None:
    assert "--tasks" in message_of(tasks=tasks)


def test_a_mistake_found_during_the_run_is_one_line_and_status_2(
    model: Path,
) -> None:
    # Whether an extraction prompt fits is known to the tokenizer alone.
    model_args = f"pretrained={model},max_length=40"
    command = ["run", "--tasks", "forward_upper", "--limit", "1", "--model_args", model_args]
    done = subprocess.run(
        [sys.executable, "-m", "harness_ext", *command],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    [line] = [line for line in done.stderr.splitlines() if "taskvec: error" in line]
    assert line.startswith("taskvec: error: an extraction prompt of demos=10 has ")
    assert done.stderr.endswith(f"{line}\n")
    assert "|forward_upper|" not in done.stdout


def test_the_command_line_wins_over_the_configuration_file(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("model: hf\nmodel_args: layer=deep\ntasks: [stock_task]\n")
    given = preflight.settings(arguments(config=str(config), model=None, tasks=["a"]))
    assert (given["model"], given["tasks"]) == ("hf", ["a"])
    assert given["model_args"] == "layer=deep"
    assert "layer=deep" in message_of(config=str(config))


@pytest.mark.parametrize("content", [None, "a list: [", "- a\n- b\n"])
def test_an_unreadable_configuration_file_is_named(tmp_path: Path, content: str | None) -> None:
    config = tmp_path / "config.yaml"
    if content is not None:
        config.write_text(content)
    assert str(config) in message_of(config=str(config))
