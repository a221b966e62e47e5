"""What a theory check is: claims, independent cells of work, a judgement and a picture."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["holds", "does not hold", "inconclusive"]
PresetName = Literal["quick", "paper"]

Measured = Sequence[tuple["Cell", dict[str, Any]]]
"""Cells with the figures measured in them, in the order of :meth:`Check.cells`."""


@dataclass(frozen=True)
class Claim:
    """A statement that a check decides.

    Attributes:
        key: short name, unique within the check.
        statement: the claim, in one or two plain sentences.
        source: where it is made: paper, theorem or figure.
        measured: what is measured, with units.
        threshold: the threshold, and why that threshold.
        expected: how the claim ended when it was recorded; a run that ends otherwise exits with 1.
    """

    key: str
    statement: str
    source: str
    measured: str
    threshold: str
    expected: Verdict


@dataclass(frozen=True)
class Finding:
    """How a claim ended in a run.

    Attributes:
        claim: the claim's key.
        verdict: what the figures say.
        summary: one sentence with the figures that decide.
        control: one sentence with the negative control and its figures.
        figures: the figures again, for programs; what JSON can hold.
    """

    claim: str
    verdict: Verdict
    summary: str
    control: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """An independent piece of work. Its settings are its identity; they are what JSON can hold."""

    check: str
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        """A file name that tells this cell from all others of its check."""
        content = json.dumps(self.settings, sort_keys=True, allow_nan=False)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Preset:
    """How much is measured; `seeds` None leaves the number of seeds to the check."""

    name: PresetName
    seeds: int | None = None


class Check(ABC):
    """A check: one module, one instance in :data:`harness_ext.theory.checks.CHECKS`.

    Instances hold no state, so that they travel to worker processes and machines.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]

    @abstractmethod
    def cells(self, preset: Preset) -> list[Cell]:
        """The work of a preset. Raises UsageError for fewer seeds than a claim needs."""

    @abstractmethod
    def measure(self, cell: Cell) -> dict[str, Any]:
        """The figures of one cell, what JSON can hold, determined by the cell alone.

        Raises UsageError for settings below what the claim needs.
        """

    @abstractmethod
    def judge(self, measured: Measured) -> list[Finding]:
        """One finding per claim, in the order of :attr:`claims`."""

    @abstractmethod
    def draw(self, measured: Measured, figure: Figure) -> None:
        """Draw the figures: axes with units, titles."""


def verdict(holds: bool | None, control_fails: bool) -> Verdict:
    """The verdict on a claim whose figures pass (`holds`), fail, or do not decide (None).

    A claim whose negative control does not come out the other way is inconclusive whatever its own
    figures say: the measurement cannot tell right from wrong.
    """
    if holds is None or not control_fails:
        return "inconclusive"
    return "holds" if holds else "does not hold"
