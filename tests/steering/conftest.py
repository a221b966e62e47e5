"""Tiny models of every family, taken apart, prompts for sweeps over their layers, and tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.tasks import TaskManager
from torch import Tensor

from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.scoring import SweepPrompt, SweepScores
from harness_ext.steering.sweep import layer_loop
from tests.models import FAMILIES, LAYERS, VOCABULARY, tiny_model
from tests.steering.oracle import random_vectors, token_rows

STRENGTHS = (None, 2.0)
TASKS = Path(__file__).parents[2] / "tasks"
FEW_SHOT_SEED = 1234  # lm-eval's default

# Tensors are tiny here: handing them to several threads costs more than it saves.
torch.set_num_threads(1)


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def anatomy(family: str) -> Anatomy:
    """Of every family in turn."""
    return dissect(tiny_model(family))


@pytest.fixture(scope="session")
def llama() -> Anatomy:
    """Of one family, for what does not depend on it."""
    return dissect(tiny_model("llama"))


@pytest.fixture(scope="session")
def prompts() -> list[SweepPrompt]:
    """Of different lengths and tails, with one cue and with several, one target and several.

    So many tokens count as right that both verdicts occur.
    """
    one, two, three, four, five, six, seven, eight = token_rows(10, 10, 12, 9, 1, 3, 13, 9)
    nine, ten, eleven, twelve = token_rows(11, 11, 14, 6, seed=3)
    common = token_rows(6, seed=9)[0]
    some = tuple(range(0, VOCABULARY, 10))
    many = tuple(range(VOCABULARY // 2))

    def prompt(
        ids: Sequence[int], cues: int | tuple[int, ...], *targets: tuple[int, ...]
    ) -> SweepPrompt:
        return SweepPrompt(tuple(ids), cues if isinstance(cues, tuple) else (cues,), targets)

    return [
        prompt(one, 9, many),
        prompt(two, 9, some),  # the shape of the first
        prompt(three, 9, many),  # text after the cue
        prompt(four, 5, (7,), some, many),  # an answer of three tokens, text between
        prompt(five, 0, many),  # nothing before the cue
        prompt(six, 0, (5,)),  # nothing before it, text after it
        prompt(seven, 11, (3, 4), many),  # an answer of two tokens right after the cue
        prompt(common + one[:4], 9, many),
        prompt(common + two[:4], 9, many),  # begins as the one before
        prompt(eight, 5, many),  # as long as the one with three tokens, but for one
        prompt(nine, (3, 7, 10), many),  # a cue in the demonstrations and at the end
        prompt(ten, (3, 6, 9), some),  # as long, its cues elsewhere, text after the last
        prompt(eleven, (3, 8, 13), many),  # longer, alike before its first cue
        prompt(twelve, (0, 5), (3, 4)),  # two cues, nothing before the first
    ]


@pytest.fixture(scope="session")
def vectors(prompts: list[SweepPrompt]) -> Tensor:
    """[prompts, layers, cues, width]."""
    return random_vectors(len(prompts), LAYERS, 3, 32)


@pytest.fixture(scope="session")
def looped(anatomy: Anatomy, prompts: list[SweepPrompt], vectors: Tensor) -> SweepScores:
    """What a forward per layer and strength finds, in every family."""
    return layer_loop(anatomy, prompts, vectors, STRENGTHS)


@pytest.fixture(scope="session")
def word_tasks() -> dict[str, Any]:
    """Every word task of this package, by its name, its few-shot seed set."""
    manager = TaskManager(include_path=str(TASKS), include_defaults=False)
    tasks = manager.load(["taskvec"])["tasks"]
    for task in tasks.values():
        task.set_fewshot_seed(FEW_SHOT_SEED)
    return dict(tasks)


@pytest.fixture(scope="session")
def stock_task(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Makes a task of lm-eval's own kind over local files, its few-shot seed set.

    Its documents have a question (q0, q1 …), an answer, and the answer's number among `yes`, `no`,
    `maybe so`: 12 for training, 4 for validation, 5 to test. Settings change its YAML.
    """
    folder = tmp_path_factory.mktemp("data")
    choices = ["yes", "no", "maybe so"]
    rows = [
        {"question": f"q{n}", "answer": choices[n % 3], "number": n % 3, "both": [n % 3, 0]}
        for n in range(21)
    ]
    files = {}
    for split, part in {"train": rows[:12], "validation": rows[12:16], "test": rows[16:]}.items():
        files[split] = str(folder / f"{split}.jsonl")
        Path(files[split]).write_text("\n".join(map(json.dumps, part)))

    def make(output_type: str = "generate_until", **settings: Any) -> Any:
        choosing = output_type == "multiple_choice"
        config = {
            "task": "stock",
            "output_type": output_type,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files, "cache_dir": str(folder / "cache")},
            "training_split": "train",
            "test_split": "test",
            "doc_to_text": "Example: {{question}} →",
            "doc_to_target": "number" if choosing else "{{answer}}",
            "doc_to_choice": choices if choosing else None,
            "target_delimiter": " ",
            "fewshot_delimiter": "\n",
            **settings,
        }
        manager = TaskManager(include_defaults=False)
        (task,) = manager.load([config])["tasks"].values()
        task.set_fewshot_seed(FEW_SHOT_SEED)
        return task

    return make
