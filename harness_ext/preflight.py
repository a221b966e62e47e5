"""What can be seen to be wrong with a run before its model loads."""

from __future__ import annotations

import argparse
import glob
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness_ext import packaged_models, plugin
from harness_ext.config import SteeringConfig, parse_model_args
from harness_ext.errors import UsageError
from harness_ext.parsing import suggestion


def check(namespace: argparse.Namespace) -> None:
    """Check the arguments of lm-eval's `run`, as its parser returns them.

    Raises :class:`UsageError` for the first thing that is wrong: a task that does not exist, and
    with our model a steering argument outside its range, a model that does not exist or does not
    fit, a task that cannot be steered. What would have to be downloaded is left to the run.
    """
    given = settings(namespace)
    _check_values(given)
    ours = given.get("model") == plugin.MODEL
    if ours:
        steering, model_args = parse_model_args(_as_mapping(given.get("model_args")))
        _check_pretrained(model_args.get("pretrained"))
    names = _listed(given.get("tasks"))
    _check_names(names, given.get("include_path"))
    if ours:
        _check_model(steering, model_args, given)
        if steering.steered:
            _check_tasks(steering, names, model_args, given)


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
        return simple_parse_args_string(model_args)
    return model_args


def _check_values(given: Mapping[str, Any]) -> None:
    """Values that lm-eval itself reads late, or passes over."""
    paths = given.get("include_path") or []
    for folder in [paths] if isinstance(paths, str) else paths:
        if not Path(folder).is_dir():
            raise UsageError(f"--include_path {folder} is not a folder.")
    limit = given.get("limit")
    if limit is not None and not float(limit) > 0:
        raise UsageError(f"--limit {limit} is not accepted; it takes a number or share above 0.")
    batch_size = str(given.get("batch_size", 1))
    if not re.fullmatch(r"[1-9]\d*|auto(:\d+(\.\d+)?)?", batch_size):
        raise UsageError(
            f"--batch_size {batch_size} is not accepted; it takes a whole number ≥ 1, auto, or "
            "auto:N."
        )


# ---- the model ----------------------------------------------------------------------------------


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


def _check_model(
    steering: SteeringConfig, model_args: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """What the model's configuration shows, and what goes with no model."""
    from harness_ext import checks
    from harness_ext.arguments import check_unknown

    checks.check_vector_paths(steering)
    if given.get("use_cache"):
        checks.check_response_cache(steering)
    _check_dtype(model_args.get("dtype", "auto"))
    config = _configuration(model_args)
    if config is not None:
        check_unknown(model_args, config)
        checks.check_model(steering, config)


def _check_dtype(dtype: Any) -> None:
    import torch

    if dtype != "auto" and not isinstance(getattr(torch, str(dtype), None), torch.dtype):
        raise UsageError(
            f"dtype={dtype} is not known; dtype takes auto, float32, float16 or bfloat16."
        )


def folder_of(pretrained: Any) -> Path | None:
    """A model's folder, where it is on this machine already."""
    for row in packaged_models.rows():
        if pretrained == packaged_models.PREFIX + row.name or (row.is_default and not pretrained):
            return row.folder if row.state == "ready" else None
    return Path(pretrained) if Path(pretrained).is_dir() else None


def _configuration(model_args: Mapping[str, Any]) -> Any | None:
    """The model's transformers configuration, where that is a file and needs no code of its own."""
    from transformers import AutoConfig

    from harness_ext import checks

    folder = folder_of(model_args.get("pretrained"))
    if folder is None or model_args.get("trust_remote_code") or model_args.get("gguf_file"):
        return None
    with checks.loading(model_args.get("pretrained", folder)):
        return AutoConfig.from_pretrained(folder, subfolder=model_args.get("subfolder", ""))


def _chat_template(model_args: Mapping[str, Any]) -> Callable[..., str] | None:
    """What renders a chat, where the tokenizer is in a folder; it has to have a template."""
    from transformers import AutoTokenizer

    from harness_ext import checks

    folder = folder_of(model_args.get("tokenizer") or model_args.get("pretrained"))
    if folder is None or model_args.get("trust_remote_code") or model_args.get("gguf_file"):
        return None
    with checks.loading(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder)
    checks.check_chat_template(tokenizer, folder)

    def render(chat: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        text = tokenizer.apply_chat_template(
            chat,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
        return str(text)

    return render


# ---- the tasks ----------------------------------------------------------------------------------


def _listed(tasks: str | Iterable[str] | None) -> list[str]:
    """The tasks asked for: names, patterns, YAML files, or one folder of YAML files."""
    given = [tasks] if isinstance(tasks, str) else list(tasks or ())
    if not all(isinstance(task, str) for task in given):
        raise UsageError(
            "An inline task is given in --config; `taskvec run` takes names and files of tasks. "
            "Save it as a YAML file and name that."
        )
    names = [name for task in given for name in task.split(",") if name]
    if not names:
        raise UsageError(
            "No task is given. Pass --tasks NAME[,NAME…], such as --tasks bijection_upper; "
            "`lm_eval ls tasks` lists them all."
        )
    return names


def _check_names(names: list[str], include_path: str | None) -> None:
    from lm_eval.tasks import TaskManager

    from harness_ext import local_tasks

    if len(names) == 1 and Path(names[0]).is_dir():
        return
    local = local_tasks.index(include_path)
    others = []
    for name in names:
        if name.endswith(".yaml"):
            if not glob.glob(name):
                raise UsageError(f"Task file {name} does not exist.")
        elif not local.match_tasks([name]):
            others.append(name)
    if not others:
        return
    everything = TaskManager(include_path=include_path)
    for name in others:
        if not everything.match_tasks([name]):
            raise UsageError(
                f"Task {name} is not known.{suggestion(name, everything.all_tasks)} "
                "`lm_eval ls tasks` lists them all; --include_path DIR adds your own."
            )


def _check_tasks(
    steering: SteeringConfig,
    names: list[str],
    model_args: Mapping[str, Any],
    given: Mapping[str, Any],
) -> None:
    """Whether the tasks that are on this machine can be steered, by what they would ask."""
    from harness_ext import checks, local_tasks
    from harness_ext.methods import vector_files
    from harness_ext.steering.prompts import cue_end
    from harness_ext.steering.task_context import TaskContext

    chat = _chat_template(model_args) if given.get("apply_chat_template") else None
    rendering = {"apply_chat_template": chat is not None, "chat_template": chat}
    for task in local_tasks.load(local_tasks.index(given.get("include_path")), names):
        checks.check_output_type(steering, task.OUTPUT_TYPE, [task.task_name])
        _set_shots(task, given.get("num_fewshot"))
        context, documents = TaskContext(task, rendering), _asked(task, given)
        checks.check_task(steering, context, documents)
        # How a chat or a system instruction will look is the model's to say.
        if steering.vectors and not (
            given.get("apply_chat_template") or given.get("system_instruction")
        ):
            vector_files.opened(steering, context)
        if given.get("apply_chat_template") and chat is None:
            continue  # how the chat will look is not known yet
        for document in documents.values():
            cue_end(context.prompt([], document), steering.cue)


def _set_shots(task: Any, num_fewshot: int | None) -> None:
    """As lm-eval does it: a 0 in the task's YAML stands, anything else is overridden."""
    if num_fewshot is not None and task.config.num_fewshot != 0:
        task.set_config("num_fewshot", num_fewshot)


def _asked(task: Any, given: Mapping[str, Any]) -> dict[int, Any]:
    """The documents that lm-eval will ask about, by their numbers."""
    from lm_eval.evaluator_utils import get_sample_size

    samples = given.get("samples") or {}
    if isinstance(samples, str):
        try:
            samples = json.loads(Path(samples).read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"--samples {samples} cannot be read: {error}") from error
    chosen = samples.get(task.task_name)
    if chosen and not all(0 <= number < len(task.eval_docs) for number in chosen):
        raise UsageError(
            f"--samples {chosen} for {task.task_name}: its documents are numbered 0 to "
            f"{len(task.eval_docs) - 1}."
        )
    limit = get_sample_size(task, given.get("limit"))
    return dict(task.doc_iterator(limit=limit, samples=chosen))
