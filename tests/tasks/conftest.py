"""Word lists of the tests' own, tasks over them, and a model that answers by a rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

TASKS = Path(__file__).parents[2] / "tasks"

MakeTask = Callable[..., Any]


class RuleLM(LM):
    """Answers each request by a function of it, and keeps the prompts it was sent."""

    tokenizer_name = "rule"

    def __init__(self, rule: Callable[[Instance], str]) -> None:
        super().__init__()
        self.rule = rule
        self.prompts: list[str] = []

    def generate_until(self, requests: list[Instance], **_: Any) -> list[str]:
        self.prompts += [request.args[0] for request in requests]
        return [self.rule(request) for request in requests]

    def apply_chat_template(self, history: list[dict[str, str]], **_: Any) -> str:
        return "".join(f"<{turn['role']}>{turn['content']}" for turn in history)

    def loglikelihood(self, requests: list[Instance]) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


@pytest.fixture(scope="session")
def rule_lm() -> Callable[[Callable[[Instance], str]], RuleLM]:
    return RuleLM


@pytest.fixture(scope="session")
def tasks_folder() -> Path:
    return TASKS


@pytest.fixture(scope="session")
def manager() -> TaskManager:
    return TaskManager(include_path=str(TASKS), include_defaults=False)


@pytest.fixture(scope="session")
def seeded(manager: TaskManager) -> Callable[..., dict[str, Any]]:
    """The tasks of some names, by name, their few-shot seed set to lm-eval's."""

    def load(names: str | list[str]) -> dict[str, Any]:
        loaded: dict[str, Any] = manager.load(names)["tasks"]
        for task in loaded.values():
            task.set_fewshot_seed(1234)
        return loaded

    return load


@pytest.fixture(scope="module", autouse=True)
def no_description_of_the_machine() -> Iterator[None]:
    """lm-eval asks pip for all packages after every run, which takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)
        yield


def word_rows(
    train: int, test: int, pair: Callable[[int], tuple[str, str]]
) -> list[dict[str, Any]]:
    return [
        {"x": pair(n)[0], "y": pair(n)[1], "split": "train" if n < train else "test"}
        for n in range(train + test)
    ]


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """20 train pairs and 10 test pairs: q0 ↔ Q0 and so on."""
    return word_rows(20, 10, lambda n: (f"q{n}", f"Q{n}"))


@pytest.fixture
def user_folder(tmp_path: Path) -> MakeTask:
    """Writes a word list and a YAML that includes ours, as a user would, and indexes the folder."""

    def write(rows: Iterable[dict[str, Any]], direction: str, **settings: Any) -> TaskManager:
        (tmp_path / "mine.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
        config = {
            "include": str(TASKS / f"_{direction}.yaml"),
            "task": f"{direction}_mine",
            "dataset_name": str(tmp_path / "mine.jsonl"),
            "metadata": {"version": 2.0},
            **settings,
        }
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config, allow_unicode=True))
        return TaskManager(include_path=str(tmp_path), include_defaults=False)

    return write


@pytest.fixture
def make_task(user_folder: MakeTask) -> MakeTask:
    """The task of a user's YAML, its few-shot seed set."""

    def make(rows: Iterable[dict[str, Any]], direction: str, **settings: Any) -> Any:
        (task,) = (
            user_folder(rows, direction, **settings).load(f"{direction}_mine")["tasks"].values()
        )
        task.set_fewshot_seed(1234)
        return task

    return make
