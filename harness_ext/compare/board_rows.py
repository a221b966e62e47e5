"""The rows of a leaderboard: which evaluations belong to one, and what it is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness_ext.compare.evaluations import Evaluation

# Without steering: this package's model class, and lm-eval's own.
PLAIN = ("none", "hf")
# What belongs to the model itself, whatever the method.
MODEL_SETTINGS = ("dtype", "revision")


@dataclass(frozen=True)
class Row:
    """A model answering in one way.

    variant: what sets it apart from rows of the same model and method beside the shots: the
    settings in which these differ, such as `bfloat16` or `head_fraction=0.1`; empty where they
    differ in none.
    """

    model: str
    method: str
    shots: int | None
    variant: str = ""

    @property
    def label(self) -> str:
        """The method for people: `zero-shot`, `ICL (10)`, `tv`, `tv (2)`, `zero-shot, hf`."""
        if self.method in PLAIN:
            own = "" if self.method == "none" else f", {self.method}"
            return f"{f'ICL ({self.shots})' if self.shots else 'zero-shot'}{own}"
        return f"{self.method} ({self.shots})" if self.shots else self.method

    @property
    def name(self) -> str:
        """All of it in one line."""
        return " · ".join(filter(None, (self.model, self.label, self.variant)))


def rows_of(evaluations: Sequence[Evaluation]) -> dict[Row, list[Evaluation]]:
    """The rows, by model, method, shots and variant, each with its evaluations.

    No two evaluations of a row share the task and the seed: reading keeps one of each key.
    """
    telling = _telling(evaluations)
    rows: dict[Row, list[Evaluation]] = defaultdict(list)
    for each in evaluations:
        variant = ", ".join(
            _said(name, each.settings[name])
            for name in sorted(telling[each.model, each.method])
            if name in each.settings
        )
        rows[Row(each.model, each.method, each.shots, variant)].append(each)
    return dict(sorted(rows.items(), key=lambda item: order(item[0])))


def order(row: Row) -> tuple[str, bool, str, int, str]:
    """By model, plain before steered, method, shots and variant."""
    shots = -1 if row.shots is None else row.shots
    return (row.model, row.method not in PLAIN, row.method, shots, row.variant)


def _telling(evaluations: Iterable[Evaluation]) -> Mapping[tuple[str, str], set[str]]:
    """By model and method, the names of the settings that are not the same in all of them."""
    groups: dict[tuple[str, str], list[Evaluation]] = defaultdict(list)
    models: dict[str, list[Evaluation]] = defaultdict(list)
    for each in evaluations:
        groups[each.model, each.method].append(each)
        models[each.model].append(each)
    return {
        (model, method): differing(group) | (differing(models[model]) & {*MODEL_SETTINGS})
        for (model, method), group in groups.items()
    }


def differing(evaluations: Sequence[Evaluation]) -> set[str]:
    """The names of the settings that are not the same in all evaluations."""
    values: dict[str, set[str]] = defaultdict(set)
    for each in evaluations:
        for name, value in each.settings.items():
            values[name].add(repr(value))
    return {
        name
        for name, found in values.items()
        if len(found) > 1 or any(name not in each.settings for each in evaluations)
    }


def _said(name: str, value: object) -> str:
    return str(value) if name == "dtype" else f"{name}={value}"
