"""A small lm-eval, a tiny model, a user's task, and the arguments of a run."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lm_eval.tasks import manager as manager_module

from harness_ext import plugin, preflight
from harness_ext.errors import UsageError
from tests.models import save_tiny


@pytest.fixture(autouse=True)
def small_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An lm-eval whose own tasks are one: indexing all of them takes seconds."""
    folder = tmp_path / "stock"
    folder.mkdir()
    (folder / "stock.yaml").write_text("task: stock_task\ndataset_path: json\n")
    monkeypatch.setattr(manager_module, "__file__", str(folder / "manager.py"))
    monkeypatch.setenv("TASKVEC_CACHE", str(tmp_path / "cache"))
    plugin.activate()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture
def my_task(tmp_path: Path) -> Callable[..., str]:
    """A user's task, its data in a file beside its YAML; settings change the YAML."""

    def write(name: str = "mine", **settings: Any) -> str:
        rows = [{"question": f"q{n}", "answer": f"a{n}", "empty": " "} for n in range(15)]
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        config = {
            "task": name,
            "output_type": "generate_until",
            "dataset_path": "json",
            "dataset_kwargs": {
                "data_files": dict.fromkeys(("train", "test"), str(tmp_path / "rows.jsonl")),
                "cache_dir": str(tmp_path / "data"),
            },
            "training_split": "train",
            "test_split": "test",
            "doc_to_text": "Example: {{question}} →",
            "doc_to_target": "answer",
            **settings,
        }
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(config, allow_unicode=True))
        return str(file)

    return write


def arguments(**given: Any) -> argparse.Namespace:
    absent = dict.fromkeys(("config", "include_path", "model_args"))
    return argparse.Namespace(
        **{**absent, "model": plugin.MODEL, "tasks": ["bijection_upper"], **given}
    )


def message_of(**given: Any) -> str:
    with pytest.raises(UsageError) as error:
        preflight.check(arguments(**given))
    return str(error.value)
