"""One results file of lm-eval, with the samples beside it, as evaluations."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness_ext.compare.evaluations import (
    STEERING_SEED,
    Evaluation,
    Metric,
    Problem,
    Reading,
    Sample,
)
from harness_ext.compare.samples_files import read_samples

RESULTS = "results.json"
# Beside the scores of a task; the last is a helper of this package's tasks, not a score.
_NO_METRICS = ("name", "alias", "sample_len", "sample_count", "answer_match_stderr")
_STDERR = "_stderr"
_NO_SETTINGS = ("pretrained", "seed", "token", "use_auth_token", "method", "ablate")
# Of a hash of lm-eval, enough to tell two texts apart.
_TOLD = 8
# Of counts and seeds; anything else is none.
_MOST = 2**64
_TORCH = re.compile(r"PyTorch version: (\S+)")


def read_file(path: Path) -> Reading:
    """The evaluations of a results file, one for each of its tasks.

    A file that is none of lm-eval's gives no evaluation and one problem. A task without usable
    samples is kept with its scores; a score that is no finite number is left out. All are told.
    """
    if path.exists() and not path.is_file():
        return _unusable(path, "no file that can be read.")
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return _unusable(path, f"cannot be read ({error.strerror}).")
    except (ValueError, RecursionError) as error:
        return _unusable(path, f"cut off, or not JSON ({error}). Evaluate again.")
    if not isinstance(results, dict) or not isinstance(results.get("results"), dict):
        return _unusable(path, "no results file of lm-eval: it has no table `results`.")
    if not isinstance(results.get("configs"), dict) or not isinstance(results.get("config"), dict):
        return _unusable(
            path,
            "written by a release of lm-eval that this one cannot read (no `configs` or `config`; "
            f"lm_eval_version={results.get('lm_eval_version')!r}). Evaluate again with 0.4.",
        )
    samples, problems = read_samples(path, results["configs"])
    evaluations = []
    for task in results["configs"]:
        if not isinstance(results["results"].get(task), dict):
            problems.append(Problem(path, f"{task}: no scores in the table `results`."))
            continue
        evaluation, found = _evaluation(path, results, task, samples.get(task))
        problems += found
        if evaluation is not None:
            evaluations.append(evaluation)
    return Reading(tuple(evaluations), tuple(problems))


def within(results: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The mapping that stands under the keys, one inside the other; empty where there is none."""
    found: Any = results
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def plain_name(pretrained: str) -> str:
    """A model's name without a folder, as one word: a packaged model's, a hub name with `__`."""
    if re.match(r"[/~.]|[A-Za-z]:[\\/]", pretrained):
        pretrained = re.split(r"[/\\]", pretrained.rstrip("/\\"))[-1]
    return re.sub(r"\s+", "_", pretrained.removeprefix("packaged:").strip("/").replace("/", "__"))


def _unusable(path: Path, message: str) -> Reading:
    return Reading((), (Problem(path, message),))


def _evaluation(
    path: Path, results: Mapping[str, Any], task: str, samples: tuple[Sample, ...] | None
) -> tuple[Evaluation | None, list[Problem]]:
    metrics, problems = _metrics(path, results, task)
    if not metrics:
        return None, [*problems, Problem(path, f"{task}: no score that is a number.")]
    config = results["config"]
    count = _whole(within(results, "n-samples", task).get("effective"))
    version = within(results, "versions").get(task)
    if samples is not None and count is not None and len(samples) != count:
        problems.append(
            Problem(
                path,
                f"{task}: {len(samples)} samples, where the results file counts {count}; its "
                "samples are not used. Evaluate again with --log_samples.",
            )
        )
        samples = None
    evaluation = Evaluation(
        path=path,
        model=plain_name(_text(results.get("model_name")) or _asked(config) or "") or "unknown",
        method=_method(config),
        settings={**_settings(config), **_asking(results)},
        task=task,
        shots=_whole(within(results, "n-shot").get(task)),
        seed=_whole(config.get("fewshot_seed")),
        groups=tuple(
            group
            for group, tasks in within(results, "group_subtasks").items()
            if isinstance(tasks, list) and task in tasks
        ),
        metrics=metrics,
        samples=samples,
        documents=count if samples is None else len(samples),
        version=None if version is None else str(version),
        steering=within(config, "steering", "tasks", task),
        facts=_facts(results),
        date=_date(results),
    )
    return evaluation, problems


def _metrics(
    path: Path, results: Mapping[str, Any], task: str
) -> tuple[dict[str, Metric], list[Problem]]:
    scores = results["results"][task]
    better = within(results, "higher_is_better", task)
    metrics, problems = {}, []
    for name, value in scores.items():
        metric, _, filtered = name.partition(",")
        if metric in _NO_METRICS or metric.endswith(_STDERR) or isinstance(value, str | list):
            continue
        if _finite(value) is None:
            problems.append(Problem(path, f"{task}: {metric}={value} is no number to compare."))
            continue
        stderr = scores.get(f"{metric}{_STDERR},{filtered}")
        label = metric if filtered in ("", "none") else f"{metric},{filtered}"
        metrics[label] = Metric(float(value), _finite(stderr), better.get(metric) is not False)
    return metrics, problems


def _method(config: Mapping[str, Any]) -> str:
    arguments = within(config, "steering", "arguments")
    if arguments.get("ablate", "none") != "none":
        return f"ablate_{arguments['ablate']}"
    method = arguments.get("method")
    # Recorded files of a model named in Python hold no class of models.
    return str(method or config.get("model") or "unknown")


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    steering = within(config, "steering", "arguments")
    given = {**_arguments(config), **steering}
    if _method(config) == "none":
        # Nothing was steered, so how it would have been makes no difference.
        given = {name: value for name, value in given.items() if name not in steering}
    settings = {
        name: value
        for name, value in given.items()
        if name not in _NO_SETTINGS and value is not None
    }
    dtype = config.get("model_dtype") or settings.get("dtype")
    if dtype is not None:
        settings["dtype"] = str(dtype).removeprefix("torch.")
    return settings


def _asking(results: Mapping[str, Any]) -> dict[str, Any]:
    """How lm-eval was told to ask, where it was told: texts by their hashes, as it keeps them."""
    found = {"gen_kwargs": results["config"].get("gen_kwargs")}
    for name in ("chat_template", "system_instruction"):
        if results.get(name):
            found[name] = str(results.get(f"{name}_sha") or results[name])[:_TOLD]
    if "chat_template" in found:
        found["fewshot_as_multiturn"] = results.get("fewshot_as_multiturn")
    return {name: value for name, value in found.items() if value not in (None, "", {})}


def _arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of `model_args`, which lm-eval keeps as a mapping or as the text of the command line."""
    given = config.get("model_args")
    if isinstance(given, str):
        pairs = (part.partition("=") for part in given.split(",") if "=" in part)
        return {name.strip(): value.strip() for name, _, value in pairs}
    return dict(given) if isinstance(given, Mapping) else {}


def _asked(config: Mapping[str, Any]) -> str | None:
    return _text(_arguments(config).get("pretrained")) or _text(config.get("model"))


def _facts(results: Mapping[str, Any]) -> dict[str, Any]:
    config = results["config"]
    torch = _TORCH.search(str(results.get("pretty_env_info")))
    found = {
        "lm-eval": results.get("lm_eval_version"),
        "transformers": results.get("transformers_version"),
        "PyTorch": torch and torch[1],
        "taskvec-harness": within(config, "steering").get("version"),
        "revision": config.get("model_revision"),
        "commit of the model": config.get("model_sha"),
        "limit": config.get("limit"),
        "system instruction": results.get("system_instruction"),
        STEERING_SEED: None
        if _method(config) == "none"
        else within(config, "steering", "arguments").get("seed"),
        **{
            name.replace("_", " "): value
            for name, value in within(config, "steering", "model").items()
        },
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _date(results: Mapping[str, Any]) -> float:
    return _finite(results.get("date")) or 0.0


def _finite(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # whole numbers have no bounds in JSON
        return None


def _whole(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= _MOST else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
