"""The tasks that `taskvec heads` scores heads on, and what can be seen to be wrong with them."""

from __future__ import annotations

import argparse
import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from harness_ext import checks, local_tasks, plugin, preflight
from harness_ext.config import SteeringConfig
from harness_ext.errors import UsageError
from harness_ext.heads.tsla import LabelSet, label_set, refuse_single_tokens
from harness_ext.steering.episodes import EpisodeShape, reusable_episodes
from harness_ext.steering.prompts import PromptEncoder
from harness_ext.steering.task_context import TaskContext


def load_tasks(
    tasks: str,
    include_path: str | None,
    config: SteeringConfig,
    loading: Mapping[str, Any],
    fewshot_seed: int,
) -> list[TaskContext]:
    """The tasks that `--tasks` stands for: names, patterns and groups, YAML files, or a folder.

    loading: arguments that load the model, which are checked as `taskvec run` checks them.
    fewshot_seed: lm-eval's, which the tasks of this package draw demonstrations by. Raises
    :class:`UsageError` for what cannot serve.
    """
    steering = {name: getattr(config, name) for name in ("demos", "queries", "average", "cue")}
    preflight.check(
        argparse.Namespace(
            model=plugin.MODEL,
            model_args={**loading, "method": "tr", **steering},
            tasks=tasks,
            include_path=include_path,
            config=None,
        )
    )
    names = [name for name in tasks.split(",") if name]
    manager = local_tasks.index(include_path)
    if not all(manager.match_tasks([name]) for name in names):
        manager = TaskManager(include_path=include_path)
    try:
        loaded = manager.load([entry for name in names for entry in _entries(manager, name)])
    except OSError as error:  # the data are on a hub that cannot be reached, say
        reason = " ".join(str(error).split())
        raise UsageError(f"the data of --tasks {tasks} cannot be loaded: {reason}") from error
    contexts = []
    for task in loaded["tasks"].values():
        if not isinstance(task, ConfigurableTask):
            raise UsageError(
                f"task {task.task_name!r} is a {type(task).__name__}, not a YAML task; taskvec can "
                "render demonstrations of ConfigurableTask only. Leave it out."
            )
        checks.check_output_type(config, task.OUTPUT_TYPE, [task.task_name])
        task.set_fewshot_seed(fewshot_seed)
        context = TaskContext(task, {})
        checks.check_task(config, context, {})
        contexts.append(context)
    return contexts


def _entries(manager: TaskManager, name: str) -> list[Any]:
    """What lm-eval loads for a name: names, or the configurations of YAML files."""
    if known := manager.match_tasks([name]):
        return list(known)
    files = str(Path(name) / "*.yaml") if Path(name).is_dir() else name
    return [load_yaml(path) for path in sorted(glob.glob(files))]


def early_tokenizer(loading: Mapping[str, Any]) -> PreTrainedTokenizerBase | None:
    """The model's tokenizer, where it is in a folder on this machine and needs no code of its own.

    loading: arguments that load the model.
    """
    folder = preflight.folder_of(loading.get("tokenizer") or loading.get("pretrained"))
    if folder is None or loading.get("trust_remote_code") or loading.get("gguf_file"):
        return None
    with checks.loading(folder):
        return AutoTokenizer.from_pretrained(folder)


def check_labels(context: TaskContext, config: SteeringConfig, encoder: PromptEncoder) -> None:
    """Raise :class:`UsageError` where a task's labels cannot be told apart by their first tokens.

    They are those of the episodes that heads are scored on. Raises it, too, where the cues in these
    prompts cannot be told from other text.
    """
    shape = EpisodeShape(config.demos, context.shots, config.queries)
    labels: list[LabelSet] = []
    for episode in reusable_episodes(context, shape, config.average, config.seed):
        shown = [context.answers(document)[0] for document in episode.demonstrations]
        for query in episode.dummies:
            text = context.prompt(episode.demonstrations, query)
            try:
                prompt = encoder.prompt(text, len(shown) + 1)
            except UsageError as error:
                raise UsageError(f"task {context.name!r}: {error}") from error
            right = context.answers(query)[0]
            labels.append(label_set(encoder, prompt, context.delimiter, right, shown))
    refuse_single_tokens(labels, context.name)
