"""What is checked before a model loads."""

import argparse
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import manager as manager_module

from harness_ext import plugin, preflight
from harness_ext.errors import UsageError


@pytest.fixture(autouse=True)
def small_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An lm-eval whose own tasks are one: indexing all of them takes seconds."""
    folder = tmp_path / "stock"
    folder.mkdir()
    (folder / "stock.yaml").write_text("task: stock_task\ndataset_path: json\n")
    monkeypatch.setattr(manager_module, "__file__", str(folder / "manager.py"))
    plugin.activate()


def arguments(**given: Any) -> argparse.Namespace:
    absent = dict.fromkeys(("config", "include_path", "model_args"))
    return argparse.Namespace(
        **{**absent, "model": plugin.MODEL, "tasks": ["bijection_upper"], **given}
    )


def message_of(**given: Any) -> str:
    with pytest.raises(UsageError) as error:
        preflight.check(arguments(**given))
    return str(error.value)


@pytest.mark.parametrize(
    "tasks",
    [
        ["bijection_upper"],
        ["bijection_upper", "stock_task"],
        ["forward_*"],
        ["taskvec_bijection"],
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


def test_steering_arguments_are_checked() -> None:
    assert "layer=deep" in message_of(model_args={"layer": "deep"})


def test_arguments_of_other_models_are_not_ours_to_check() -> None:
    preflight.check(arguments(model="hf", model_args={"layer": "deep"}))


def test_an_unknown_packaged_model_is_named() -> None:
    assert "gpt-9" in message_of(model_args={"pretrained": "packaged:gpt-9"})


def test_a_missing_model_folder_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert missing in message_of(model_args={"pretrained": missing})
    preflight.check(arguments(model_args={"pretrained": str(tmp_path)}))
    preflight.check(arguments(model_args={"pretrained": "org/model"}))


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
