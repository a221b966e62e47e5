"""Reads a grid: a YAML file, under what the command line says, and checks it.

Nothing heavy is imported and no model is looked at: see `preflight` for what follows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness_ext.config import FIELDS, parse_model_args
from harness_ext.errors import UsageError
from harness_ext.grids.grid import Grid, Method, Model, method_name, model_name, safe_name
from harness_ext.parsing import suggestion

LISTS = ("models", "methods", "tasks", "shots", "seeds")
_MOST = 2**32  # of seeds, by numpy
SETTINGS = ("limit", "batch_size", "include_path")
_OF_A_METHOD = ("tasks", "shots", "seeds")
_DEFAULTS: Mapping[str, Any] = {"models": [{}], "methods": ["tv"], "shots": [0], "seeds": [1234]}


def read_grid(path: Path | None, line: Mapping[str, Any]) -> Grid:
    """The grid of a file, where one is named, with what the command line gives in its place.

    line: values by the names of LISTS and SETTINGS; None for what is not given.

    Raises:
        UsageError: naming file and entry, with the value and what is accepted.
    """
    source = str(path) if path is not None else "the command line"
    found = {} if path is None else _load(path)
    given = {**found, **{name: value for name, value in line.items() if value is not None}}
    lists = {name: _list(source, name, given.get(name, _DEFAULTS.get(name))) for name in LISTS}
    shots, seeds = (_numbers(source, name, lists[name]) for name in ("shots", "seeds"))
    tasks = _names(source, "tasks", lists["tasks"]) if lists["tasks"] else ()
    methods = [
        _method(f"{source}, methods[{place}]", entry, shots, seeds, tasks)
        for place, entry in enumerate(lists["methods"])
    ]
    models = [
        _model(f"{source}, models[{place}]", entry) for place, entry in enumerate(lists["models"])
    ]
    _check_names_of_methods(source, methods)
    _check_distinct(source, "models", [model.name for model in models])
    return Grid(
        source,
        tuple(models),
        tuple(methods),
        limit=_limit(source, given.get("limit")),
        batch_size=given.get("batch_size", 1),
        include_path=given.get("include_path"),
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise UsageError(
            f"{path} is no grid: it has to be a mapping with {', '.join(LISTS)} or "
            f"{', '.join(SETTINGS)}, and is {_shown(found)}."
        )
    _check_known(str(path), found, (*LISTS, *SETTINGS))
    return found


def _list(source: str, name: str, value: Any) -> list[Any]:
    entries = value if isinstance(value, list) else [] if value is None else [value]
    if not entries and name != "tasks":
        raise UsageError(f"{source}: {name} is empty; it takes one entry or more.")
    return entries


def _numbers(source: str, name: str, entries: Sequence[Any]) -> tuple[int, ...]:
    for entry in entries:
        if not isinstance(entry, int) or isinstance(entry, bool) or not 0 <= entry < _MOST:
            raise UsageError(
                f"{source}: {name} has {_shown(entry)}; it takes whole numbers from 0 to "
                f"{_MOST - 1}."
            )
    _check_distinct(source, name, [str(entry) for entry in entries])
    return tuple(entries)


def _names(source: str, name: str, entries: Sequence[Any]) -> tuple[str, ...]:
    for entry in entries:
        if not isinstance(entry, str) or not entry.strip():
            raise UsageError(f"{source}: {name} has {_shown(entry)}; it takes names of tasks.")
    names = [part.strip() for entry in entries for part in entry.split(",") if part.strip()]
    _check_distinct(source, name, names)
    return tuple(names)


def _limit(source: str, value: Any) -> int | float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (
        number and 0 < value < math.inf and (value < 1 or value == int(value))
    ):
        raise UsageError(
            f"{source}: limit is {_shown(value)}; it takes a number of documents ≥ 1, or a share "
            "of them between 0 and 1."
        )
    return value


def _method(
    place: str, entry: Any, shots: tuple[int, ...], seeds: tuple[int, ...], tasks: tuple[str, ...]
) -> Method:
    if isinstance(entry, str):
        entry = _split(place, entry, "method")
    if not isinstance(entry, dict):
        raise UsageError(
            f"{place} is {_shown(entry)}; a method is a name such as tv, or a mapping such as "
            "{method: tr, head_fraction: 0.1}."
        )
    if "seed" in entry:
        raise UsageError(
            f"{place}: seed={entry['seed']}: a grid's seeds are given as seeds, and set the draws "
            "of episodes and lm-eval's few-shot seed alike."
        )
    _check_known(place, entry, (*FIELDS, *_OF_A_METHOD, "name"))
    if "save_vectors" in entry:
        raise UsageError(
            f"{place}: save_vectors={entry['save_vectors']}: the cells of a grid would write over "
            "each other's files. Save vectors with `lm_eval --model_args save_vectors=DIR`."
        )
    arguments = {name: value for name, value in entry.items() if name in FIELDS}
    try:
        parse_model_args(arguments)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error
    own = {name: _list(place, name, entry[name]) for name in _OF_A_METHOD if name in entry}
    method = Method(
        safe_name(str(entry["name"])) if "name" in entry else method_name(arguments),
        arguments,
        _numbers(place, "shots", own["shots"]) if "shots" in own else shots,
        _numbers(place, "seeds", own["seeds"]) if "seeds" in own else seeds,
        _names(place, "tasks", own["tasks"]) if own.get("tasks") else tasks,
    )
    if not method.tasks:
        raise UsageError(
            f"{place}: no task is given. Name tasks for all methods (tasks: [bijection_upper]), or "
            "for each; `lm_eval ls tasks` lists them."
        )
    return method


def _model(place: str, entry: Any) -> Model:
    if isinstance(entry, str):
        entry = _split(place, entry, "pretrained")
    if not isinstance(entry, dict):
        raise UsageError(
            f"{place} is {_shown(entry)}; a model is a name such as packaged:smollm2-135m, or a "
            "mapping such as {pretrained: packaged:smollm2-135m, dtype: bfloat16}."
        )
    arguments = {name: value for name, value in entry.items() if name != "name"}
    for name, value in arguments.items():
        if name in FIELDS:
            raise UsageError(f"{place}: {name}={value} steers, and belongs to an entry of methods.")
    return Model(
        safe_name(str(entry["name"])) if "name" in entry else model_name(arguments), arguments
    )


def _split(place: str, text: str, first: str) -> dict[str, Any]:
    """An entry in the manner of --model_args, such as `tr,head_fraction=0.1`."""
    head, *rest = (part.strip() for part in text.split(","))
    pairs = [f"{first}={head}" if "=" not in head else head, *rest]
    if not all("=" in pair for pair in pairs) or not head:
        raise UsageError(
            f"{place} is {_shown(text)}; as text an entry is {first.upper()}[,NAME=VALUE…]."
        )
    from lm_eval.utils import simple_parse_args_string

    # The word none arrives as Python's None there, which the parsers of arguments know.
    parsed: dict[str, Any] = simple_parse_args_string(",".join(pairs))
    return {name: "none" if value is None else value for name, value in parsed.items()}


def _check_known(place: str, entry: Mapping[Any, Any], known: Sequence[str]) -> None:
    for name in entry:
        if name not in known:
            raise UsageError(
                f"{place}: {name} is not known.{suggestion(str(name), known)} Accepted: "
                f"{', '.join(known)}."
            )


def _check_names_of_methods(source: str, methods: Sequence[Method]) -> None:
    """A method may stand twice, for other tasks or shots, but only under one name."""
    named: dict[str, Method] = {}
    for method in methods:
        other = named.setdefault(method.name, method)
        if other is not method and vars(other) == vars(method):
            raise UsageError(f"{source}: {method.name} stands twice in methods. Drop one.")
        if other.arguments != method.arguments:
            raise UsageError(
                f"{source}: two methods are called {method.name}: {dict(other.arguments)} and "
                f"{dict(method.arguments)}. Give one of them another name."
            )


def _check_distinct(source: str, what: str, names: Sequence[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        own = (
            ", or give one a name of its own (name: NAME)" if what in ("models", "methods") else ""
        )
        raise UsageError(f"{source}: {twice[0]} stands twice in {what}. Drop one{own}.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
