"""What a grid asks for: models × methods × tasks × shots × seeds, checked.

Each model and method has a name that its folders and tables carry, made from what was asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness_ext import packaged_models

_LONGEST = 80
_OTHER = re.compile(r"[^A-Za-z0-9._,=-]+")


@dataclass(frozen=True, eq=False)
class Model:
    """A model to load. arguments: those of `taskvec-hf` that do not steer, `pretrained` too."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Method:
    """A way to steer: steering arguments but for the seed, and where it is run.

    tasks: as lm-eval takes them, names and patterns of tasks and groups.
    """

    name: str
    arguments: Mapping[str, Any]
    shots: tuple[int, ...]
    seeds: tuple[int, ...]
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A whole grid.

    Attributes:
        source: what it was read from, for messages.
        limit: tested documents of a task, a number or a share; None for all.
        batch_size: as lm-eval takes it.
        include_path: a folder of tasks beside those of the package.
    """

    source: str
    models: tuple[Model, ...]
    methods: tuple[Method, ...]
    limit: int | float | None = None
    batch_size: int | str = 1
    include_path: str | None = None


def model_name(arguments: Mapping[str, Any]) -> str:
    """What a model is called: its own name, and behind it what it is loaded with.

    That of a packaged model, the last part of a folder, or a hub name with `__` for the slash; then
    the dtype, then other arguments as `name=value`.
    """
    pretrained = str(
        arguments.get("pretrained") or packaged_models.PREFIX + packaged_models.DEFAULT
    )
    own = pretrained.removeprefix(packaged_models.PREFIX)
    if re.match(r"[/~.]", own) or Path(own).is_dir():
        own = Path(own).name or own
    rest = {name: v for name, v in arguments.items() if name not in ("pretrained", "dtype")}
    dtype = [str(arguments["dtype"])] if "dtype" in arguments else []
    return safe_name("-".join([own.replace("/", "__"), *dtype, *_pairs(rest)]))


def method_name(arguments: Mapping[str, Any]) -> str:
    """What a method is called: `tr`, or `tr,head_fraction=0.1`; `ablate_tr` for an ablation."""
    ablate = arguments.get("ablate")
    named = f"ablate_{ablate}" if ablate else str(arguments.get("method", "tv"))
    rest = {n: v for n, v in arguments.items() if n not in ("method", "ablate")}
    return safe_name(",".join([named, *_pairs(rest)]))


def safe_name(name: str) -> str:
    """A name fit for a folder on any system; one that had to be changed ends in a hash of it."""
    plain = _OTHER.sub("_", name).strip("._") or "unnamed"
    if plain == name and len(plain) <= _LONGEST:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: _LONGEST - 9]}-{digest}"


def _pairs(arguments: Mapping[str, Any]) -> Iterable[str]:
    return (f"{name}={value}" for name, value in sorted(arguments.items()))
