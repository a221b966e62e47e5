"""What can be seen to be wrong with a run before its model loads."""

from __future__ import annotations

import argparse
import glob
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness_ext import packaged_models, plugin
from harness_ext.config import parse_model_args, suggestion
from harness_ext.errors import UsageError


def check(namespace: argparse.Namespace) -> None:
    """Check the arguments of lm-eval's `run`, as its parser returns them.

    Raises :class:`UsageError` for the first thing that is wrong: a steering argument outside its
    range, a model folder or a task that does not exist.
    """
    given = settings(namespace)
    if given.get("model") == plugin.MODEL:
        _config, model_args = parse_model_args(_as_mapping(given.get("model_args")))
        _check_pretrained(model_args.get("pretrained"))
    _check_tasks(given.get("tasks"), given.get("include_path"))


def settings(namespace: argparse.Namespace) -> dict[str, Any]:
    """The arguments given: those of the configuration file (`--config`) under those of the line.

    Raises :class:`UsageError` where the file cannot be read.
    """
    from lm_eval.config.evaluate_config import EvaluatorConfig

    line = {name: value for name, value in vars(namespace).items() if value is not None}
    if not line.get("config"):
        return line
    try:
        return {**EvaluatorConfig.load_yaml_config(line["config"]), **line}
    except (FileNotFoundError, TypeError, ValueError) as error:
        raise UsageError(f"--config {line['config']}: {error}") from error


def _as_mapping(model_args: Any) -> Mapping[str, Any]:
    from lm_eval.utils import simple_parse_args_string

    if model_args is None or isinstance(model_args, str):
        return simple_parse_args_string(model_args)  # type: ignore[no-any-return]
    return model_args  # type: ignore[no-any-return]


def _check_pretrained(pretrained: object) -> None:
    """A packaged model must be one that there is, what looks like a folder must be there."""
    if not isinstance(pretrained, str):
        return
    if pretrained.startswith(packaged_models.PREFIX):
        packaged_models.state(pretrained.removeprefix(packaged_models.PREFIX))
    elif pretrained.startswith(("/", "./", "../", "~")) and not Path(pretrained).is_dir():
        raise UsageError(
            f"pretrained={pretrained} does not exist. pretrained takes a model folder, a hub name, "
            f"or {packaged_models.PREFIX}NAME (`taskvec models` lists them)."
        )


def _check_tasks(tasks: str | Iterable[str] | None, include_path: Any) -> None:
    """Tasks are names, patterns, YAML files, or one folder of YAML files, as lm-eval takes them."""
    listed = tasks.split(",") if isinstance(tasks, str) else list(tasks or ())
    names = [task for task in listed if task]
    if not names:
        raise UsageError(
            "No task is given. Pass --tasks NAME[,NAME…], such as --tasks bijection_upper; "
            "`lm_eval ls tasks` lists them all."
        )
    if len(names) == 1 and Path(names[0]).is_dir():
        return
    for name in names:
        if name.endswith(".yaml") and not glob.glob(name):
            raise UsageError(f"Task file {name} does not exist.")
    _check_task_names([name for name in names if not name.endswith(".yaml")], include_path)


def _check_task_names(names: list[str], include_path: str | None) -> None:
    from lm_eval.tasks import TaskManager

    # Indexing all of lm-eval's tasks takes seconds, ours none: look there first.
    ours = TaskManager(include_path=plugin.tasks_dir(), include_defaults=False)
    others = [name for name in names if not ours.match_tasks([name])]
    if not others:
        return
    everything = TaskManager(include_path=include_path)
    for name in others:
        if not everything.match_tasks([name]):
            raise UsageError(
                f"Task {name} is not known.{suggestion(name, everything.all_tasks)} "
                "`lm_eval ls tasks` lists them all; --include_path DIR adds your own."
            )
