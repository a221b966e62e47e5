"""Files of JSON objects, one in a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness_ext.errors import UsageError


class DamagedRow(ValueError):
    """What is wrong with a row."""


def lines(path: Path) -> list[str]:
    """The lines of a file but for empty ones at its end.

    Raises OSError, and ValueError where it is not UTF-8.
    """
    # Not str.splitlines: a generated text may hold other line separators than "\n".
    text = path.read_text(encoding="utf-8").rstrip("\n")
    return text.split("\n") if text else []


def row(line: str) -> dict[str, Any]:
    """The object in a line. Raises :class:`DamagedRow` where there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedRow(f"cut off, or not JSON ({error})") from error
    if not isinstance(found, dict):
        raise DamagedRow(f"not a row: {line[:80]!r}")
    return found


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file, each with the place it stands at.

    Raises :class:`UsageError` where the file cannot be read or has no rows, or a line is not a JSON
    object.
    """
    try:
        found = lines(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}). Record the run again.") from error
    if not found:
        raise UsageError(f"{path} is empty. Record the run again.")
    for number, line in enumerate(found, 1):
        place = f"{path}, line {number}"
        try:
            yield place, row(line)
        except DamagedRow as error:
            raise UsageError(f"{place}: {error}. Record the run again.") from error
