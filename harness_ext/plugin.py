"""What lm-eval is told: the model, the folder of word tasks, and where results are kept.

HOOKS names the modules of lm-eval, and the functions to call with them once they are imported. Each
may be called again without harm, and raises whatever Python raises where the module is not built as
expected.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from harness_ext.errors import UsageError

MODEL = "taskvec-hf"
TARGET = "harness_ext.lm:TaskVectorLM"
SUPPORTED = "lm-eval >=0.4.13,<0.5"


def tasks_dir() -> Path:
    """The folder of word tasks: inside the package in a wheel, beside it in a source tree.

    Raises :class:`UsageError` where neither is there.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "tasks", package.parent / "tasks"):
        if folder.is_dir():
            return folder
    raise UsageError(
        f"The word tasks are missing: there is no folder {package / 'tasks'}. The installation is "
        "incomplete; install taskvec-harness again."
    )


def activate() -> None:
    """Tell lm-eval everything now, whether or not start-up files are processed.

    Raises :class:`UsageError` where the installed lm-eval is not one that the plug-in can work
    with, or where the word tasks are missing.
    """
    for name, hook in HOOKS.items():
        try:
            hook(importlib.import_module(name))
        except UsageError:
            raise
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(
                f"The installed lm-eval does not fit this version of taskvec-harness, which "
                f"supports {SUPPORTED}: {hook.__name__} failed on {name} ({type(error).__name__}: "
                f"{error}). Install a supported version."
            ) from error


def register_model(models: ModuleType) -> None:
    """Make ``--model taskvec-hf`` known, without importing its class yet.

    Called after lm-eval has registered its own models: it imports them only where the registry is
    empty, so that registering earlier would hide them. An entry point may have been first.
    """
    from lm_eval.api.registry import model_registry

    if MODEL not in model_registry:
        model_registry.register(MODEL, target=TARGET)


def add_tasks_folder(tasks: ModuleType) -> None:
    """Let every ``TaskManager`` index the word tasks: after lm-eval's own, before the user's.

    Later folders win, so a user's ``include_path`` may replace a word task. With
    ``include_defaults=False`` the user's folders alone are indexed, as ever.
    """
    ours = tasks_dir()
    original = tasks.TaskManager.__init__
    if _is_ours(original):
        return
    signature = inspect.signature(original)
    if not {"include_path", "include_defaults"} <= signature.parameters.keys():
        raise TypeError(f"TaskManager takes {signature}")

    @functools.wraps(original, assigned=_KEPT)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        call = signature.bind(self, *args, **kwargs)
        call.apply_defaults()
        given = call.arguments["include_path"]
        if call.arguments["include_defaults"]:
            call.arguments["include_path"] = _with_folder(ours, given)
        original(*call.args, **call.kwargs)
        self.include_path = given

    tasks.TaskManager.__init__ = __init__


def name_results_folder(evaluation_tracker: ModuleType) -> None:
    """Give the results of packaged models a folder by their name.

    lm-eval names the folder after ``pretrained``, at random where there is none, and would write
    the colon of ``packaged:NAME`` as underscores.
    """
    tracker = evaluation_tracker.GeneralConfigTracker
    original = tracker.log_experiment_args
    if _is_ours(original):
        return

    @functools.wraps(original, assigned=_KEPT)
    def log_experiment_args(
        self: Any, model_source: str, model_args: Any, *args: Any, **kwargs: Any
    ) -> None:
        if model_source == MODEL:
            model_args = _with_model_name(model_args)
        original(self, model_source, model_args, *args, **kwargs)

    tracker.log_experiment_args = log_experiment_args


HOOKS: Mapping[str, Callable[[ModuleType], None]] = {
    "lm_eval.models": register_model,
    "lm_eval.tasks": add_tasks_folder,
    "lm_eval.loggers.evaluation_tracker": name_results_folder,
}

# What a wrapper takes over from the method it wraps. Its module stays ours: the mark that the
# method is wrapped already.
_KEPT = ("__name__", "__qualname__", "__doc__")


def _is_ours(function: Callable[..., Any]) -> bool:
    return function.__module__ == __name__


def _with_folder(ours: Path, include_path: Any) -> list[str | Path]:
    """Our folder, then the user's; the user's alone where ours is among them already."""
    given = include_path if isinstance(include_path, (list, tuple)) else [include_path]
    users = [path for path in given if path]
    if ours in (Path(path).resolve() for path in users):
        return users
    return [ours, *users]


def _with_model_name(model_args: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The model arguments with the packaged model's bare name as ``pretrained``."""
    from lm_eval.utils import simple_parse_args_string

    from harness_ext import packaged_models

    args = simple_parse_args_string(model_args) if isinstance(model_args, str) else model_args
    named = {"pretrained": packaged_models.DEFAULT, **(args or {})}
    if isinstance(named["pretrained"], str):
        named["pretrained"] = named["pretrained"].removeprefix("packaged:")
    return named
