"""The tasks of a grid: loaded once, to be counted and to be told from others of their names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lm_eval.evaluator_utils import get_sample_size
from lm_eval.tasks import TaskManager

from harness_ext import local_tasks
from harness_ext.errors import UsageError

# Where the documents come from and how the task is shelved; the documents count, by themselves.
_NOT_ASKED = (
    *("dataset_path", "dataset_name", "dataset_kwargs", "custom_dataset", "num_fewshot"),
    *("task", "task_alias", "tag", "group", "metadata", "unsafe_code"),
)


@dataclass(frozen=True)
class LoadedTask:
    """A task as the grid needs it.

    documents: how many are tested. sha256: of all that its prompts and scores are made of.
    """

    name: str
    documents: int
    sha256: str


@dataclass(frozen=True)
class LoadedTasks:
    """tasks: by name. asked: for each name that the grid gives, the tasks it stands for."""

    manager: TaskManager
    tasks: Mapping[str, LoadedTask]
    asked: Mapping[str, tuple[str, ...]]

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The tasks that these names, patterns, groups and tags stand for, each once."""
        return tuple(dict.fromkeys(task for name in names for task in self.asked[name]))


def load_tasks(
    names: Iterable[str], include_path: str | None, limit: int | float | None
) -> LoadedTasks:
    """The tasks that the names stand for. Raises :class:`UsageError` where data cannot be had."""
    names = tuple(dict.fromkeys(names))
    manager = local_tasks.index(include_path)
    if not all(manager.match_tasks([name]) for name in names):
        manager = TaskManager(include_path=include_path)
    tasks: dict[str, LoadedTask] = {}
    asked: dict[str, tuple[str, ...]] = {}
    for name in names:
        try:
            loaded = manager.load(manager.match_tasks([name]))["tasks"]
        except OSError as error:  # the data are on a hub that cannot be reached, say
            reason = " ".join(str(error).split())
            raise UsageError(f"The data of task {name} cannot be loaded: {reason}") from error
        asked[name] = tuple(loaded)
        tasks |= {
            task: _loaded(task, found, limit) for task, found in loaded.items() if task not in tasks
        }
    return LoadedTasks(manager, tasks, asked)


def _loaded(name: str, task: Any, limit: int | float | None) -> LoadedTask:
    tested, config = list(task.eval_docs), task.dump_config()
    asked = {key: value for key, value in config.items() if key not in _NOT_ASKED}
    digest = hashlib.sha256()
    for part in (asked, tested, list(task.fewshot_docs() or ())):
        digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    asked_for = get_sample_size(task, limit)
    count = len(tested) if asked_for is None else min(asked_for, len(tested))
    return LoadedTask(name, count, digest.hexdigest())
