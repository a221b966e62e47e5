"""Tasks that can be loaded without network: the word tasks, and those with data in local files.

lm-eval loads a task's data together with the task. To look at a task before the model is loaded,
without fetching anything that a mistake elsewhere would make useless, only these are loaded early.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from harness_ext import plugin

FILE_BUILDERS = ("csv", "json", "parquet", "text")
"""Values of `dataset_path` that read the files named in `dataset_kwargs`."""


def index(include_path: str | None) -> TaskManager:
    """The word tasks and a user's own, without lm-eval's, whose indexing takes seconds."""
    paths = [plugin.tasks_dir(), *([include_path] if include_path else [])]
    return TaskManager(include_path=paths, include_defaults=False)


def load(manager: TaskManager, names: Iterable[str]) -> Iterator[ConfigurableTask]:
    """Those of the tasks that are local.

    names: as lm-eval takes them, that is names and patterns of tasks, groups and tags, YAML files,
    or folders of these. Members of a group that are no plain names are left out.
    """
    seen: set[Path] = set()
    for name in names:
        for path in _files(manager, name):
            if path not in seen and _is_local(load_yaml(path, resolve_func=False)):
                seen.add(path)
                yield from manager.load([load_yaml(path)])["tasks"].values()


def _files(manager: TaskManager, name: str) -> Iterator[Path]:
    """The YAML files of the tasks, no groups, that a name stands for."""
    if name.endswith(".yaml"):
        yield from map(Path, sorted(glob.glob(name)))
    elif Path(name).is_dir():
        yield from sorted(Path(name).glob("*.yaml"))
    for match in manager.match_tasks([name]):
        yield from _files_of(manager.task_index, manager.task_index[match])


def _files_of(known: Mapping[str, Any], entry: Any) -> Iterator[Path]:
    members: Iterable[Any] = ()
    if entry.kind.name == "TAG":
        members = sorted(entry.tags)
    elif entry.kind.name == "GROUP":
        members = entry.cfg.get("task") or ()
    else:
        yield entry.yaml_path
    for member in members:
        if isinstance(member, str) and member in known:
            yield from _files_of(known, known[member])


def _is_local(config: Mapping[str, Any]) -> bool:
    """Whether loading the task of this configuration, its functions by name, fetches nothing."""
    if "class" in config:
        return Path(config["class"]).parent == plugin.tasks_dir()
    if "task" not in config or "custom_dataset" in config:
        return False
    files = (config.get("dataset_kwargs") or {}).get("data_files")
    return config.get("dataset_path") in FILE_BUILDERS and _are_files(files)


def _are_files(files: Any) -> bool:
    if isinstance(files, str):
        return Path(files).is_file()
    if isinstance(files, Mapping):
        return _are_files(list(files.values()))
    return isinstance(files, list) and bool(files) and all(map(_are_files, files))
