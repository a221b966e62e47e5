"""Values of `--model_args`: texts or parsed already, as lm-eval hands them over, made into ours.

A parser takes an argument's name and value, and raises :class:`UsageError` for what it does not
accept.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from harness_ext.errors import UsageError

Auto = Literal["auto"]
AUTO: Auto = "auto"
Parser = Callable[[str, Any], Any]


def suggestion(name: str, known: Iterable[str]) -> str:
    """A closing sentence naming the nearest known names, or nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def choice(accepted: Sequence[str]) -> Parser:
    """One of some words; `none`, which arrives as None, may be among them."""

    def parse(name: str, value: Any) -> str:
        text = "none" if value is None else str(value)
        if text not in accepted:
            raise UsageError(
                f"{name}={text} is not known; accepted: {', '.join(accepted)}."
                f"{suggestion(text, accepted)}"
            )
        return text

    return parse


def whole(least: int | None = None) -> Parser:
    """A whole number, at least `least`."""
    accepted = "a whole number" if least is None else f"a whole number ≥ {least}"

    def parse(name: str, value: Any) -> int:
        written = re.fullmatch(r"\s*([+-]?\d+)(\.0*)?\s*", str(value))
        number = int(written[1]) if written else None
        if number is None or (least is not None and number < least):
            raise UsageError(f"{name}={_shown(value)} is not accepted; {name} takes {accepted}.")
        return number

    return parse


def _shown(value: Any) -> Any:
    """The value as it was typed: lm-eval reads -1 as the float -1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def layer(name: str, value: Any) -> int | Auto:
    """`auto` or a layer index."""
    if value == AUTO:
        return AUTO
    try:
        index: int = whole(0)(name, value)
    except UsageError:
        raise UsageError(
            f"{name}={_shown(value)} is not accepted; {name} takes auto or a layer index, counted "
            "from 0."
        ) from None
    return index


def strength(name: str, value: Any) -> float | Auto:
    """`auto` or a finite number."""
    if value == AUTO:
        return AUTO
    number = _number(value)
    if not math.isfinite(number):
        raise UsageError(f"{name}={_shown(value)} is not accepted; {name} takes auto or a number.")
    return number


def fraction(name: str, value: Any) -> float:
    """A number in (0, 1]."""
    number = _number(value)
    if not 0 < number <= 1:
        raise UsageError(
            f"{name}={_shown(value)} is not accepted; {name} takes a number above 0, at most 1."
        )
    return number


def _number(value: Any) -> float:
    """The number, or NaN where it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        return math.nan


def flag(name: str, value: Any) -> bool:
    """True or False."""
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise UsageError(f"{name}={value} is not accepted; {name} takes True or False.")
    return text == "true"


def cue(name: str, value: Any) -> str:
    """A text that is not blank."""
    text = str(value) if value is not None else ""
    if not text.strip():
        raise UsageError(
            f"{name}={text!r} is empty; {name} takes the text that ends a demonstration's input, "
            "such as → or Answer:."
        )
    return text


def path(name: str, value: Any) -> str | None:
    """A path, `~` being the home folder; None is none."""
    if value is None:
        return None
    text = str(value)
    if not text.strip() or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is not accepted; {name} takes a path.")
    return os.path.expanduser(text)
