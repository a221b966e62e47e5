"""A tiny model in a folder, small tasks over it, and lm-eval's evaluator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
import yaml
from lm_eval.tasks import TaskManager

from harness_ext import plugin
from harness_ext.lm import TaskVectorLM
from tests.models import save_tiny

TASKS = Path(__file__).parents[2] / "tasks"
WORDS = ("ab", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu")
TRAIN = 11

Results = dict[str, Any]

# Tensors are tiny here: handing them to several threads costs more than it saves.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama and a byte-level tokenizer whose arrow is three tokens."""
    plugin.activate()
    return save_tiny(tmp_path_factory.mktemp("model"), "llama", "split")


@pytest.fixture(scope="session")
def tasks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two word tasks with the same queries in the same documents: `forward_upper3`, `forward_echo`.

    Eleven train and four test pairs, so that lm-eval's documents repeat each query thirteen times.
    """
    folder = tmp_path_factory.mktemp("tasks")
    answers: Mapping[str, Callable[[str], str]] = {"upper3": str.upper, "echo": str}
    for name, answer in answers.items():
        rows = [
            {"x": word, "y": answer(word), "split": "train" if n < TRAIN else "test"}
            for n, word in enumerate(WORDS)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        config = {
            "include": str(TASKS / "_forward.yaml"),
            "task": f"forward_{name}",
            "dataset_name": str(folder / f"{name}.jsonl"),
            "metadata": {"version": 1.0},
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture(scope="session")
def manager(tasks_folder: Path) -> TaskManager:
    return TaskManager(include_path=str(tasks_folder), include_defaults=False)


@pytest.fixture(scope="session")
def stock_task(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """An inline task of lm-eval's own kind, its data in local files; settings change its YAML.

    Every document has a question, an answer, and the answer's number among `yes`, `no`, `maybe so`.
    """
    folder = tmp_path_factory.mktemp("data")
    choices = ["yes", "no", "maybe so"]
    rows = [
        {"question": f"{a}{b}", "answer": choices[n % 3], "number": n % 3}
        for n, (a, b) in enumerate((a, b) for a in "abcd" for b in "klmno")
    ]
    for split, part in {"train": rows[:12], "test": rows[12:]}.items():
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, part)))

    def make(name: str, output_type: str, **settings: Any) -> dict[str, Any]:
        return {
            "task": name,
            "output_type": output_type,
            "dataset_path": "json",
            "dataset_kwargs": {
                "data_files": {s: str(folder / f"{s}.jsonl") for s in ("train", "test")},
                "cache_dir": str(folder / "cache"),
            },
            "training_split": "train",
            "fewshot_split": "train",
            "test_split": "test",
            "doc_to_text": "Example: {{question}} →",
            "doc_to_target": "number" if output_type == "multiple_choice" else "{{answer}}",
            "doc_to_choice": choices if output_type == "multiple_choice" else None,
            "target_delimiter": " ",
            "fewshot_delimiter": "\n",
            "metadata": {"version": 1.0},
            **settings,
        }

    return make


@pytest.fixture(scope="session")
def evaluate(manager: TaskManager) -> Iterator[Callable[..., Results]]:
    """lm-eval's own evaluation of a model object, or of a model's name with `model_args`.

    It leaves out the description of the machine, for which lm-eval calls pip and others each time.
    """
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)

    def run(model: Any, *tasks: Any, **options: Any) -> Results:
        results: Results = lm_eval.simple_evaluate(
            model,
            tasks=deepcopy(list(tasks)),
            task_manager=manager,
            bootstrap_iters=0,
            **options,
        )
        return results

    yield run
    monkeypatch.undo()


@pytest.fixture(scope="session")
def steered(folder: Path) -> Callable[..., TaskVectorLM]:
    """The tiny model with small draws; arguments as in `--model_args`."""

    def make(**arguments: Any) -> TaskVectorLM:
        return TaskVectorLM(**{"pretrained": str(folder), "demos": 3, "dev": 4, **arguments})

    return make


def answers(results: Results, task: str) -> list[Any]:
    """What the model answered to a task's documents, in their order."""
    return [sample["resps"] for sample in results["samples"][task]]
