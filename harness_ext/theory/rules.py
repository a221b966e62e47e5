"""A claim together with the figures that decide it, so that the two cannot drift apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from harness_ext.theory.check import Claim, Finding, Measured, verdict

Runs = Mapping[str, Mapping[str, list[Any]]]
"""Figures by group of cells (a training recipe, a size), then by name, one entry per seed."""

Evidence = Mapping[str, Sequence[float]]
"""Figures that decide, by what they are, one per seed."""


@dataclass(frozen=True)
class Rule:
    """How a claim is decided.

    Attributes:
        claim: the claim.
        evidence: the figures that decide, from the runs.
        passes: whether one seed's figures, in the order of `evidence`, meet the threshold.
        control: what the negative control is.
        control_evidence: the same figures where the claim must come out the other way.
        context: figures shown beside them that decide nothing.
    """

    claim: Claim
    evidence: Callable[[Runs], Evidence]
    passes: Callable[..., bool]
    control: str
    control_evidence: Callable[[Runs], Evidence]
    context: Callable[[Runs], Evidence] = lambda runs: {}

    def judge(self, runs: Runs) -> Finding:
        """Holds where every seed passes and no seed of the control does, fails the other way round.

        Where the seeds disagree the claim is inconclusive.
        """
        evidence, control = self.evidence(runs), self.control_evidence(runs)
        context = self.context(runs)
        passed = [self.passes(*row) for row in zip(*evidence.values(), strict=True)]
        controls = [self.passes(*row) for row in zip(*control.values(), strict=True)]
        holds = True if all(passed) else None if any(passed) else False
        opposed = all(controls) if holds is False else not any(controls)
        return Finding(
            claim=self.claim.key,
            verdict=verdict(holds, control_fails=opposed),
            summary=_sentence({**evidence, **context}),
            control=f"{self.control}: {_sentence(control)}",
            figures={
                "evidence": _lists(evidence),
                "control": _lists(control),
                "context": _lists(context),
            },
        )


def named(group: str, **figures: str) -> Callable[[Runs], Evidence]:
    """Figures of one group: each keyword, underscores read as spaces, names one of its figures."""
    return lambda runs: {
        label.replace("_", " "): runs[group][name] for label, name in figures.items()
    }


def runs_by(group: str, measured: Measured) -> Runs:
    """The figures of all cells by their setting `group`, the seeds of all blocks in one list."""
    runs: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for cell, figures in measured:
        for name, by_seed in figures.items():
            runs[str(cell.settings[group])][name].extend(by_seed)
    return runs


def _sentence(evidence: Evidence) -> str:
    """Mean over seeds and range of every figure."""
    return "; ".join(
        f"{label} {_number(fmean(values))} ({_number(min(values))} to {_number(max(values))})"
        for label, values in evidence.items()
    )


def _number(value: float) -> str:
    return f"{value:.4f}" if 0 < abs(value) < 0.01 else f"{value:.3g}"


def _lists(evidence: Evidence) -> dict[str, list[float]]:
    return {label: list(values) for label, values in evidence.items()}
