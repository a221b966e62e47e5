"""Which evaluations of two sides are compared with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness_ext.compare.board_rows import MODEL_SETTINGS, Row, differing
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.text import listed, visible
from harness_ext.errors import UsageError

SIDES = ("BASE", "NEW")
_DIMENSIONS: Mapping[str, Callable[[Evaluation], object]] = {
    "model": lambda each: each.model,
    "method": lambda each: each.method,
    "shots": lambda each: each.shots,
    "seed": lambda each: each.seed,
}
_Side = Sequence[Evaluation]
_Key = tuple[object, ...]


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
    """What is compared: each dimension in which the sides differ, with what it is on either; empty
    where a side does not have it."""


def pair(base: _Side, new: _Side) -> Pairing:
    """Match the evaluations of two sides by task, model, method, settings, shots and seed.

    A dimension in which each side has exactly one value is what may be compared, and need not be
    the same. A setting is a dimension of its own, in each method; dtype and revision are in each
    model. Seeds of a task are put together.

    Raises :class:`UsageError` where several evaluations of a side belong to one place.
    """
    values = {
        name: [{value(each) for each in side} for side in (base, new)]
        for name, value in _DIMENSIONS.items()
    }
    told = [name for name, both in values.items() if any(len(side) != 1 for side in both)]
    places = _Places(told, _telling((base, new), told))
    ours, theirs = (
        _by_key(side, places, name) for name, side in zip(SIDES, (base, new), strict=True)
    )
    groups: dict[tuple[str, str], list[tuple[Evaluation, Evaluation]]] = defaultdict(list)
    for key, one in ours.items():
        if key in theirs:
            groups[one.task, places.name(one)].append((one, theirs[key]))
    pairs = tuple(
        Pair(task, place, tuple(sorted(own, key=lambda both: both[0].seed or 0)))
        for (task, place), own in groups.items()
    )
    return Pairing(pairs, _only(ours, theirs, places), _only(theirs, ours, places), _varied(pairs))


@dataclass(frozen=True)
class _Places:
    """What tells evaluations of a task apart.

    told: the dimensions that do. settings: those that do, for each model and method as far as these
    are told.
    """

    told: Sequence[str]
    settings: Mapping[_Key, set[str]]

    def own_settings(self, each: Evaluation) -> list[str]:
        """The settings that tell it apart."""
        return sorted(self.settings[_group(each, self.told)])

    def key(self, each: Evaluation) -> _Key:
        """What no two evaluations of a side may share."""
        told = (_DIMENSIONS[name](each) for name in self.told)
        settings = (repr(each.settings.get(name)) for name in self.own_settings(each))
        return (each.task, *told, *settings)

    def name(self, each: Evaluation) -> str:
        """What has to be said beside the task; seeds are put together, and not told."""
        parts = [each.model] if "model" in self.told else []
        if "method" in self.told or "shots" in self.told:
            parts.append(Row(each.model, each.method, each.shots).label)
        parts += [
            f"{name}={each.settings[name]}"
            for name in self.own_settings(each)
            if name in each.settings
        ]
        return ", ".join(parts)


def _group(each: Evaluation, told: Sequence[str]) -> _Key:
    return tuple(_DIMENSIONS[name](each) if name in told else None for name in ("model", "method"))


def _telling(sides: Sequence[_Side], told: Sequence[str]) -> dict[_Key, set[str]]:
    """The settings of which a side has several values, for each model and method that is told."""
    telling: dict[_Key, set[str]] = {}
    for side in sides:
        found: dict[_Key, list[Evaluation]] = defaultdict(list)
        models: dict[object, list[Evaluation]] = defaultdict(list)
        for each in side:
            found[_group(each, told)].append(each)
            models[_group(each, told)[0]].append(each)
        for group, own in found.items():
            several = differing(own) | (differing(models[group[0]]) & {*MODEL_SETTINGS})
            telling[group] = telling.get(group, set()) | several
    return telling


def _by_key(side: _Side, places: _Places, name: str) -> dict[_Key, Evaluation]:
    found: dict[_Key, Evaluation] = {}
    for each in side:
        key = places.key(each)
        if key in found:
            raise UsageError(
                f"{name} has several evaluations of {visible(each.task)}: {found[key].path} and "
                f"{each.path}. Name one, or choose with --models, --methods, --shots or --seeds."
            )
        found[key] = each
    return found


def _only(
    ours: Mapping[_Key, Evaluation], theirs: Mapping[_Key, Evaluation], places: _Places
) -> tuple[str, ...]:
    names = []
    for key, each in ours.items():
        if key not in theirs:
            seed = f"seed {each.seed}" if "seed" in places.told else ""
            rest = ", ".join(filter(None, (places.name(each), seed)))
            names.append(f"{each.task} ({rest})" if rest else each.task)
    return tuple(names)


def _varied(pairs: Sequence[Pair]) -> dict[str, tuple[str, str]]:
    """All in which the two evaluations of a pair differ; between methods, settings of both."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for one, other in (both for each in pairs for both in each.evaluations):
        values = {name: (value(one), value(other)) for name, value in _DIMENSIONS.items()}
        if one.method == other.method:
            names = sorted({*one.settings, *other.settings})
        else:
            names = [name for name in sorted(one.settings) if name in other.settings]
        values |= {name: (one.settings.get(name), other.settings.get(name)) for name in names}
        for name, both in values.items():
            said = ["" if value is None else str(value) for value in both]
            if said[0] != said[1]:
                for own, text in zip(found.setdefault(name, ([], [])), said, strict=True):
                    own.append(text)
    return {name: (listed(base), listed(new)) for name, (base, new) in found.items()}
