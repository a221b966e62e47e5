"""Which evaluations of two sides are compared with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness_ext.compare.board_columns import listed
from harness_ext.compare.board_rows import Row, rows_of
from harness_ext.compare.evaluations import Evaluation
from harness_ext.errors import UsageError

_Value = Callable[[Row, Evaluation], object]
_DIMENSIONS: Mapping[str, _Value] = {
    "model": lambda row, each: row.model,
    "method": lambda row, each: row.method,
    "settings": lambda row, each: row.variant,
    "shots": lambda row, each: each.shots,
    "seed": lambda row, each: each.seed,
}


@dataclass(frozen=True)
class Pair:
    """A task on both sides.

    Attributes:
        task: its name.
        place: what tells it from others of the task, such as `ICL (10)`; empty where nothing has
            to.
        evaluations: of BASE and of NEW, in the order of their few-shot seeds.
    """

    task: str
    place: str
    evaluations: tuple[tuple[Evaluation, Evaluation], ...]

    @property
    def name(self) -> str:
        """The task, and its place behind it."""
        return f"{self.task} ({self.place})" if self.place else self.task


@dataclass(frozen=True)
class Pairing:
    """What is on both sides, and the names of what is on one of them only."""

    pairs: tuple[Pair, ...]
    only_base: tuple[str, ...]
    only_new: tuple[str, ...]
    varied: Mapping[str, tuple[str, str]]
    """What is compared: each dimension in which the sides differ, with its two values."""


def pair(base: Sequence[Evaluation], new: Sequence[Evaluation]) -> Pairing:
    """Match the evaluations of two sides by task, model, method, settings, shots and seed.

    A dimension in which each side has exactly one value is what may be compared, and need not be
    the same. Seeds of a task are put together.

    Raises :class:`UsageError` where several evaluations of a side belong to one place.
    """
    sides = [_placed(side) for side in (base, new)]
    values = {
        name: [{value(*each) for each in side} for side in sides]
        for name, value in _DIMENSIONS.items()
    }
    free = {name for name, both in values.items() if all(len(side) == 1 for side in both)}
    varied = {
        name: (str(next(iter(values[name][0]))), str(next(iter(values[name][1]))))
        for name in _DIMENSIONS
        if name in free and values[name][0] != values[name][1]
    }
    told = [name for name in _DIMENSIONS if name not in free]
    ours, theirs = (
        _by_key(side, told, name) for side, name in zip(sides, ("BASE", "NEW"), strict=True)
    )
    groups: dict[tuple[str, str], list[tuple[Evaluation, Evaluation]]] = defaultdict(list)
    for key in ours:
        if key in theirs:
            row, one = ours[key]
            groups[one.task, _place(row, one, told)].append((one, theirs[key][1]))
    pairs = tuple(
        Pair(task, place, tuple(sorted(own, key=lambda both: both[0].seed or 0)))
        for (task, place), own in groups.items()
    )
    return Pairing(pairs, _only(ours, theirs, told), _only(theirs, ours, told), varied)


_Placed = list[tuple[Row, Evaluation]]


def _placed(side: Sequence[Evaluation]) -> _Placed:
    return [(row, each) for row, own in rows_of(side).items() for each in own]


def _by_key(
    side: _Placed, told: Sequence[str], name: str
) -> dict[tuple[object, ...], tuple[Row, Evaluation]]:
    found: dict[tuple[object, ...], tuple[Row, Evaluation]] = {}
    for row, each in side:
        key = (each.task, *(_DIMENSIONS[one](row, each) for one in told))
        if key in found:
            raise UsageError(
                f"{name} has several evaluations of {each.task}: {found[key][1].path} and "
                f"{each.path}. Name one, or choose with --models, --methods, --shots or --seeds."
            )
        found[key] = (row, each)
    return found


def _place(row: Row, each: Evaluation, told: Sequence[str]) -> str:
    """What has to be said beside the task; seeds are put together, and not told."""
    parts = []
    if "model" in told:
        parts.append(row.model)
    if "method" in told or "shots" in told:
        parts.append(row.label)
    if "settings" in told and row.variant:
        parts.append(row.variant)
    return ", ".join(parts)


def _only(
    ours: Mapping[tuple[object, ...], tuple[Row, Evaluation]],
    theirs: Mapping[tuple[object, ...], tuple[Row, Evaluation]],
    told: Sequence[str],
) -> tuple[str, ...]:
    names = []
    for key, (row, each) in ours.items():
        if key not in theirs:
            place = _place(row, each, told)
            seed = f"seed {each.seed}" if "seed" in told else ""
            rest = listed([part for part in (place, seed) if part])
            names.append(f"{each.task} ({rest})" if rest else each.task)
    return tuple(names)
