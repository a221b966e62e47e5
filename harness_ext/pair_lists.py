"""The pairs that tasks are made of, and the files they are read from.

Apart from `tasks/`, because lm-eval loads what is there by its path: nothing there can be imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness_ext.errors import UsageError

SPLITS = ("train", "test")


class Pair(NamedTuple):
    """A row of a list: the accepted forms of each side, the one shown in prompts first.

    Samplers order pairs by their names: with an alias, pairs of different tasks are one pair there.
    """

    x: tuple[str, ...]
    y: tuple[str, ...]
    split: str
    alias: str | None = None

    @property
    def name(self) -> str:
        """Identifies the pair in its list."""
        return f"{self.x[0]}|{self.y[0]}" if self.alias is None else self.alias

    def forms(self, side: str) -> tuple[str, ...]:
        """The accepted forms of side "x" or "y"."""
        return self.x if side == "x" else self.y


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a list, in its order. Raises :class:`UsageError` naming a faulty line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_pair(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def with_symbols(pairs: Iterable[Pair], symbols: Mapping[str, str], task: str) -> list[Pair]:
    """The pairs under their names, each y replaced by its symbol.

    Raises :class:`UsageError`, naming the task, where a y has none or shares one with another.
    """
    pairs = list(pairs)
    words = {pair.y[0] for pair in pairs}
    if set(symbols) != words or len(set(symbols.values())) < len(words):
        raise UsageError(
            f"{task}: symbols={dict(symbols)} must name one symbol of its own for each of "
            f"{', '.join(sorted(words))}."
        )
    return [pair._replace(y=(symbols[pair.y[0]],), alias=pair.name) for pair in pairs]


def _pair(line: str, place: str) -> Pair:
    try:
        row = json.loads(line)
        x, y = ("text", "label") if "text" in row else ("x", "y")
        pair = Pair(x=_forms(row, x), y=_forms(row, y), split=row.pop("split"))
        if row or pair.split not in SPLITS:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f'{place}: not a row of a word list: {line!r}. A row is {{"x": text, "y": text, '
            '"split": "train" or "test"}, and may have lists of texts "x_also" and "y_also"; for '
            'sentences, {"text": text, "label": text, "split": "train" or "test"}.'
        ) from None
    return pair


def _forms(row: dict[str, Any], side: str) -> tuple[str, ...]:
    also = row.pop(f"{side}_also", [])
    forms = [row.pop(side), *also]
    if not isinstance(also, list) or not all(isinstance(form, str) and form for form in forms):
        raise TypeError
    return tuple(forms)
