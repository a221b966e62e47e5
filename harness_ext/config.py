"""The steering arguments of `taskvec-hf`: names, meanings, defaults, and their checks.

Nothing heavy is imported, so that arguments can be checked before a model is loaded.
"""

from __future__ import annotations

import difflib
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from harness_ext.errors import UsageError

log = logging.getLogger(__name__)

METHODS = ("none", "tv", "tv_m", "tv_ms")
Mode = Literal["replace", "add"]
AUTO: Literal["auto"] = "auto"
Auto = Literal["auto"]


_OF_THE_FILE = ("layer", "mode", "strength", "demos", "queries", "average", "dev", "seed")
"""Arguments that vectors from a file bring with them."""


def _about(accepted: str, help: str) -> Mapping[str, str]:
    return {"accepted": accepted, "help": help}


@dataclass(frozen=True)
class SteeringConfig:
    """What to inject, where, and on which draws: one checked set of steering arguments.

    Built by :func:`parse_model_args`; every field is one `--model_args` name.
    """

    method: str = field(
        default="tv",
        metadata=_about(
            "`none`, `tv`, `tv_m`, `tv_ms`",
            "`none` runs the model unsteered (then it equals stock `hf`); `tv` injects a task "
            "vector, the state at the last cue of a prompt with demonstrations, at the last cue; "
            "`tv_m` and `tv_ms` inject one at every cue of an N-shot prompt: `tv_m` from N+1 "
            "prompts, `tv_ms` from the last N+1 cues of one.",
        ),
    )
    layer: int | Auto = field(
        default=AUTO,
        metadata=_about(
            "`auto` or a layer index, from 0",
            "Layer after which the vector is read and injected; `auto` takes the one with the best "
            "development accuracy, task by task.",
        ),
    )
    mode: Mode = field(
        default="replace",
        metadata=_about(
            "`replace`, `add`",
            "`replace` puts the vector in the place of the state; `add` adds strength · vector to "
            "it.",
        ),
    )
    strength: float | Auto = field(
        default=AUTO,
        metadata=_about(
            "`auto` or a number",
            "Factor on an added vector (`mode=add` only); `auto` takes the best on the development "
            "episodes out of 0.5, 1, 2 and 4.",
        ),
    )
    demos: int = field(
        default=10, metadata=_about("a whole number ≥ 1", "Demonstrations in an extraction prompt.")
    )
    queries: int = field(
        default=1,
        metadata=_about(
            "a whole number ≥ 1", "Dummy queries that one extraction is averaged over."
        ),
    )
    average: int = field(
        default=0,
        metadata=_about(
            "a whole number ≥ 0",
            "0: every tested query gets a vector from a prompt of its own, as in the paper. N > 0: "
            "one reusable vector per task, the mean over N episodes (much faster).",
        ),
    )
    dev: int = field(
        default=50,
        metadata=_about(
            "a whole number ≥ 1",
            "Development episodes from which `auto` chooses, and `tv_m` takes its other vectors.",
        ),
    )
    cue: str = field(
        default="→",
        metadata=_about(
            "any text", "Text that ends a demonstration's input, right before the answer."
        ),
    )
    seed: int = field(
        default=0,
        metadata=_about(
            "a whole number",
            "Draws of episodes. (In the tasks of this package a tested query's own demonstrations "
            "follow lm-eval's few-shot seed instead, so that in-context learning and the vector "
            "see the same ones.)",
        ),
    )
    save_vectors: str | None = field(
        default=None,
        metadata=_about(
            "a folder",
            "Write each task's vectors there, as TASK.safetensors, as soon as they are made; files "
            "of that name are replaced.",
        ),
    )
    vectors: str | None = field(
        default=None,
        metadata=_about(
            "a file, or a folder of them",
            "Inject vectors that `save_vectors` wrote, instead of making any; layer, mode and "
            "strength are the file's.",
        ),
    )

    def said(self) -> dict[str, Any]:
        """The arguments that had a part in a run, for its results."""
        if not self.steered:
            return {"method": self.method}
        silent = _OF_THE_FILE if self.vectors is not None else ()
        return {name: value for name, value in asdict(self).items() if name not in silent}

    @property
    def steered(self) -> bool:
        """Whether the method changes the model's states at all."""
        return self.method != "none"


FIELDS: Mapping[str, Any] = {f.name: f for f in fields(SteeringConfig)}


def parse_model_args(kwargs: Mapping[str, Any]) -> tuple[SteeringConfig, dict[str, Any]]:
    """Split `--model_args` into the steering configuration and everything else.

    Values may be strings or already parsed, as lm-eval hands them over; the word `none` arrives as
    Python's None. Raises :class:`UsageError` for a value outside its range.
    """
    steering = {name: value for name, value in kwargs.items() if name in FIELDS}
    rest = {name: value for name, value in kwargs.items() if name not in FIELDS}
    return _build(steering), rest


def _build(given: Mapping[str, Any]) -> SteeringConfig:
    values: dict[str, Any] = {}
    for name, value in given.items():
        values[name] = _PARSERS[name](name, value)
    ignored = [name for name in values if name != "method"]
    if values.get("method") == "none" and ignored:
        log.warning("method=none steers nothing, so these have no effect: %s", ", ".join(ignored))
    mode = values.get("mode", FIELDS["mode"].default)
    if mode == "replace" and values.get("strength", AUTO) != AUTO:
        raise UsageError(
            f"strength={values['strength']} has no meaning with mode=replace: a vector that "
            "replaces the state has no factor. Drop it, or pass mode=add."
        )
    _check_files(values)
    return SteeringConfig(**values)


def _check_files(values: Mapping[str, Any]) -> None:
    """Vectors from a file bring what made them, and are not written again."""
    if values.get("vectors") is None:
        return
    said = [name for name in (*_OF_THE_FILE, "save_vectors") if values.get(name) is not None]
    if said:
        raise UsageError(
            f"vectors={values['vectors']} brings what its vectors were made with; drop "
            f"{', '.join(f'{name}={values[name]}' for name in said)}, or drop vectors to make new "
            "ones."
        )


def suggestion(name: str, known: Iterable[str]) -> str:
    """A closing sentence naming the nearest known names, or nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _choice(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    text = "none" if value is None else str(value)
    if text not in accepted:
        raise UsageError(
            f"{name}={text} is not known; accepted: {', '.join(accepted)}."
            f"{suggestion(text, accepted)}"
        )
    return text


def _method(name: str, value: Any) -> str:
    return _choice(name, value, METHODS)


def _mode(name: str, value: Any) -> str:
    return _choice(name, value, get_args(Mode))


def _whole(name: str, value: Any, least: int | None) -> int:
    accepted = "a whole number" if least is None else f"a whole number ≥ {least}"
    written = re.fullmatch(r"\s*([+-]?\d+)(\.0*)?\s*", str(value))
    number = int(written[1]) if written else None
    if number is None or (least is not None and number < least):
        raise UsageError(f"{name}={_shown(value)} is not accepted; {name} takes {accepted}.")
    return number


def _shown(value: Any) -> Any:
    """The value as it was typed: lm-eval reads -1 as the float -1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _at_least(least: int | None) -> Any:
    return lambda name, value: _whole(name, value, least)


def _layer(name: str, value: Any) -> int | Auto:
    if value == AUTO:
        return AUTO
    try:
        return _whole(name, value, 0)
    except UsageError:
        raise UsageError(
            f"layer={_shown(value)} is not accepted; layer takes auto or a layer index, counted "
            "from 0."
        ) from None


def _strength(name: str, value: Any) -> float | Auto:
    if value == AUTO:
        return AUTO
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise UsageError(f"strength={value} is not accepted; strength takes auto or a number.")
    return number


def _cue(name: str, value: Any) -> str:
    text = str(value) if value is not None else ""
    if not text.strip():
        raise UsageError(
            f"cue={text!r} is empty; cue takes the text that ends a demonstration's input, such "
            "as → or Answer:."
        )
    return text


def _path(name: str, value: Any) -> str | None:
    if value is None:
        return None
    text = str(value)
    if not text.strip() or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is not accepted; {name} takes a path.")
    return os.path.expanduser(text)


_PARSERS = {
    "method": _method,
    "layer": _layer,
    "mode": _mode,
    "strength": _strength,
    "demos": _at_least(1),
    "queries": _at_least(1),
    "average": _at_least(0),
    "dev": _at_least(1),
    "cue": _cue,
    "seed": _at_least(None),
    "save_vectors": _path,
    "vectors": _path,
}
