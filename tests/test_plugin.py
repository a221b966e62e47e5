"""What lm-eval is told, on the lm-eval that is installed."""

import importlib.metadata
import inspect
import logging
import pickle
from pathlib import Path
from typing import Any

import lm_eval.models
import lm_eval.tasks
import pytest
from lm_eval.api.registry import Registry
from lm_eval.loggers.evaluation_tracker import GeneralConfigTracker
from lm_eval.tasks import TaskManager
from lm_eval.tasks import manager as manager_module

from harness_ext import plugin
from harness_ext.errors import UsageError

TASK = "taskvec_probe"


class AnyTaskManager(TaskManager):
    """A subclass with another signature, at module level so that it can be pickled."""

    def __init__(self, folder: Path, **kwargs: Any) -> None:
        super().__init__(None, folder, **kwargs)


@pytest.fixture(autouse=True)
def activated() -> None:
    plugin.activate()


def write_task(folder: Path, name: str = TASK) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(f"task: {name}\ndataset_path: json\n")
    return folder


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Three small folders in the places of lm-eval's tasks, of ours, and of a user's."""
    names = ("stock", "ours", "users")
    made = {name: write_task(tmp_path / name, f"only_{name}") for name in names}
    monkeypatch.setattr(manager_module, "__file__", str(made["stock"] / "manager.py"))
    monkeypatch.setattr(plugin, "tasks_dir", lambda: made["ours"])
    unwrapped = inspect.unwrap(TaskManager.__init__)
    monkeypatch.setattr(TaskManager, "__init__", unwrapped)
    plugin.add_tasks_folder(lm_eval.tasks)
    return made


def test_tasks_dir_holds_the_word_tasks_wherever_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plugin.tasks_dir().is_absolute()
    assert list(plugin.tasks_dir().rglob("*.yaml"))


def test_missing_word_tasks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "__file__", str(tmp_path / "harness_ext" / "plugin.py"))
    with pytest.raises(UsageError, match="word tasks are missing"):
        plugin.tasks_dir()


def test_activating_again_wraps_nothing_twice() -> None:
    wrapped = TaskManager.__init__, GeneralConfigTracker.log_experiment_args
    plugin.activate()
    assert (TaskManager.__init__, GeneralConfigTracker.log_experiment_args) == wrapped


def test_the_entry_point_and_the_hook_name_the_same_class() -> None:
    [entry] = importlib.metadata.entry_points(group="lm_eval.models", name=plugin.MODEL)
    assert entry.value == plugin.TARGET


def test_an_entry_point_that_lm_eval_found_first_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: Registry[Any] = Registry("model")
    entry = importlib.metadata.EntryPoint(plugin.MODEL, plugin.TARGET, "lm_eval.models")
    registry.register(plugin.MODEL, target=entry)
    monkeypatch.setattr("lm_eval.api.registry.model_registry", registry)
    plugin.register_model(lm_eval.models)
    assert list(registry.values()) == [entry]


def test_the_task_manager_indexes_stock_and_word_tasks(folders: dict[str, Path]) -> None:
    assert TaskManager().all_tasks == ["only_ours", "only_stock"]
    assert TaskManager(include_path=str(folders["users"])).all_tasks == [
        "only_ours",
        "only_stock",
        "only_users",
    ]


def test_without_defaults_only_the_users_tasks_are_indexed(folders: dict[str, Path]) -> None:
    manager = TaskManager(include_path=folders["users"], include_defaults=False)
    assert manager.all_tasks == ["only_users"]


def test_a_users_task_replaces_ours_and_ours_replaces_a_stock_one(
    folders: dict[str, Path],
) -> None:
    for folder in folders.values():
        write_task(folder)
    ours, users = TaskManager(), TaskManager(include_path=folders["users"])
    assert ours.task_index[TASK].yaml_path == folders["ours"] / f"{TASK}.yaml"
    assert users.task_index[TASK].yaml_path == folders["users"] / f"{TASK}.yaml"


def test_our_folder_given_by_the_user_is_indexed_once(
    folders: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        manager = TaskManager(include_path=[folders["ours"], folders["users"]])
    assert manager.all_tasks == ["only_ours", "only_stock", "only_users"]
    assert "overrides" not in caplog.text


@pytest.mark.parametrize("given", [None, "users", ["users"]])
def test_the_manager_remembers_the_include_path_as_given(
    folders: dict[str, Path], given: Any
) -> None:
    assert TaskManager(include_path=given).include_path == given


def test_the_managers_signature_and_metadata_are_lm_evals_own(folders: dict[str, Path]) -> None:
    manager = TaskManager(None, None, True, {"pretrained": "some/model"})
    assert manager.metadata == {"pretrained": "some/model"}
    assert list(inspect.signature(TaskManager).parameters) == [
        "verbosity",
        "include_path",
        "include_defaults",
        "metadata",
    ]


def test_a_pickled_manager_knows_the_same_tasks(folders: dict[str, Path]) -> None:
    for manager in (TaskManager(), AnyTaskManager(folders["users"])):
        copy = pickle.loads(pickle.dumps(manager))
        assert type(copy) is type(manager)
        assert copy.all_tasks == manager.all_tasks


def test_a_subclass_gains_the_word_tasks(folders: dict[str, Path]) -> None:
    assert AnyTaskManager(folders["users"]).all_tasks == ["only_ours", "only_stock", "only_users"]


@pytest.mark.parametrize(
    ("model_args", "name"),
    [
        ("", "smollm2-135m"),
        (None, "smollm2-135m"),
        ({}, "smollm2-135m"),
        ("method=tv,layer=12", "smollm2-135m"),
        ({"layer": 12}, "smollm2-135m"),
        ("pretrained=packaged:gemma-3-270m,layer=3", "gemma-3-270m"),
        ({"pretrained": "packaged:smollm2-135m"}, "smollm2-135m"),
        ("pretrained=org/model,layer=3", "org__model"),
        ({"pretrained": "org/model", "peft": "org/adapter"}, "org__adapter"),
    ],
)
def test_results_land_under_the_models_name(model_args: Any, name: str) -> None:
    assert _results_folder(plugin.MODEL, model_args) == name


def test_results_of_other_models_land_where_lm_eval_puts_them() -> None:
    assert _results_folder("hf", {"pretrained": "packaged:some-model"}) == "packaged__some-model"


def _results_folder(model: str, model_args: Any) -> str | None:
    tracker = GeneralConfigTracker()
    tracker.log_experiment_args(
        model_source=model,
        model_args=model_args,
        system_instruction=None,
        chat_template=None,
        fewshot_as_multiturn=False,
    )
    return tracker.model_name_sanitized
