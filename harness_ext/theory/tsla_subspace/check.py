"""The check `tsla-subspace`: a large TR score against other subspaces of the same dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset
from harness_ext.theory.rules import Evidence, Rule, Runs, named, runs_by
from harness_ext.theory.tsla_subspace.picture import draw
from harness_ext.theory.tsla_subspace.sampling import LABELS, OTHERS, SHARE, measure
from harness_ext.theory.tsla_subspace.subspaces import decay_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSIONS = (8, 16, 24, 32, 48, 64)
LEAST_DRAWS = 5000
"""3 % of 5000 heads are 150, enough for their failure rate to within 0.04."""

PAPER = "Yang, Cho, Inoue 2026 (arXiv 2509.24164), the Grassmannian statement on TR scores"
HIGH = 0.05
"""A failure rate of 5 %: "with high probability"."""


def _at(name: str, *dimensions: int, prefix: str = "at") -> Callable[[Runs], Evidence]:
    """A figure at several dimensions."""
    return lambda runs: {
        f"{prefix} d = {dimension}": runs[str(dimension)][name] for dimension in dimensions
    }


def _slope(name: str) -> Callable[[Runs], Evidence]:
    """Least-squares slope of −log of a rate against d, per seed, and of its closed form.

    From 16 to 48 dimensions: below, the power of d in front of the exponential bends the line;
    above, too few events are drawn.
    """

    def slope(rates: list[list[float]]) -> list[float]:
        logs = -np.log(np.maximum(rates, 1e-6))
        return [float(line) for line in np.polyfit(used, logs, 1)[0]]

    used = (16, 24, 32, 48)

    def evidence(runs: Runs) -> Evidence:
        exact = [runs[str(d)]["other larger, aligned, exact"] for d in used]
        return {
            "measured decay per dimension": slope([runs[str(d)][name] for d in used]),
            "closed form": slope(exact),
        }

    return evidence


RULES = (
    Rule(
        Claim(
            "one-other-subspace",
            f"A head with {SHARE:.0%} of its squared output in the task's label subspace projects "
            f"more on it than on another subspace of its dimension ({LABELS} labels), with a "
            "probability that goes to 1 as the model's dimension grows.",
            PAPER,
            "share of draws (head, task subspace, other subspace; both uniform) in which the other "
            "holds at least as much, in 16 and 64 dimensions",
            "at most 5 % in 64 dimensions and at most a tenth of that in 16; the closed form, the "
            "tail of Beta(m/2, (d−m)/2), falls by far more",
            "holds",
        ),
        _at("other larger, aligned", 16, 64),
        lambda low, high: high <= min(HIGH, low / 10),
        "heads of random directions",
        _at("other larger, unrelated", 16, 64),
        _at("other larger, aligned, exact", 16, 64, prefix="closed form, at"),
    ),
    Rule(
        Claim(
            "exponential-rate",
            "The probability of the contrary falls exponentially in the dimension, at the rate the "
            "closed form gives: −½ log(1 − share) per dimension in the limit.",
            PAPER + ", its rate",
            "least-squares slope of −log P against d, from 16 to 48 dimensions",
            "within 10 % of the closed form's slope over the same dimensions: about three standard "
            "errors of the rarest rate drawn",
            "holds",
        ),
        _slope("other larger, aligned"),
        lambda slope, exact: abs(slope / exact - 1) < 0.1,
        "heads of random directions",
        _slope("other larger, unrelated"),
        lambda runs: {"limit": [decay_rate(SHARE)]},
    ),
    Rule(
        Claim(
            "many-other-subspaces",
            f"In 64 dimensions such a head projects more on its task's subspace than on every one "
            f"of {OTHERS} others.",
            PAPER,
            "share of draws in which any of the others holds at least as much",
            f"at most 5 %; a random head loses to one of {OTHERS} in {OTHERS} of {OTHERS + 1}",
            "holds",
        ),
        _at("any of many larger, aligned", 64),
        lambda rate: rate <= HIGH,
        "heads of random directions",
        _at("any of many larger, unrelated", 64),
        _at("any of many larger, aligned, exact", 64, prefix="closed form, at"),
    ),
    Rule(
        Claim(
            "above-chance-suffices",
            "Where the labels' subspace grows with the model (m = d/4), a share is large once it "
            "is above chance m/d: 40 % suffices, and ever more surely.",
            PAPER + ", what large means",
            "share of draws in which the other subspace holds at least as much, in 16 and 64 "
            "dimensions",
            "at most 5 % in 64 dimensions and at most half of that in 16",
            "holds",
        ),
        _at("other larger, above chance", 16, 64),
        lambda low, high: high <= min(HIGH, low / 2),
        "a share of 10 %, below chance",
        _at("other larger, below chance", 16, 64),
        _at("other larger, above chance, exact", 64, prefix="closed form, at"),
    ),
    Rule(
        Claim(
            "score-without-norm",
            "A large TR score |P a| as it stands, not divided by |a|, is enough: the top 3 % of "
            "heads of random directions and unequal norms project more on their task's subspace.",
            PAPER + ", with the score as printed",
            "share of those heads for which the other subspace holds at least as much, in 64 "
            "dimensions; norms are log-normal, standard deviation of the logarithm 1",
            "at most 5 %",
            "does not hold",
        ),
        _at("other larger, top by score", 64),
        lambda rate: rate <= HIGH,
        "the top 3 % by |P a| / |a|",
        _at("other larger, top by share", 64),
    ),
    Rule(
        Claim(
            "score-over-norm",
            "Divided by |a| the score is enough: of the same heads, the top 3 % by |P a| / |a| "
            "project more on their task's subspace.",
            PAPER + ", with the score over the norm",
            "share of those heads for which the other subspace holds at least as much, in 64 "
            "dimensions",
            "at most 5 %; half the top share, 1.5 %, is expected, because their scores for another "
            "task rank like any head's",
            "holds",
        ),
        _at("other larger, top by share", 64),
        lambda rate: rate <= HIGH,
        "the top 3 % by |P a|",
        _at("other larger, top by score", 64),
    ),
    Rule(
        Claim(
            "shared-direction",
            "It holds as well where all labels share a direction (cosine ½ between any two) "
            "and a head writes half its output along that direction.",
            PAPER + ", without the uniform model",
            "share of draws in which another task's subspace holds at least as much, in 64 "
            "dimensions",
            "at most 5 %",
            "does not hold",
        ),
        named("64", other_larger="other larger, common direction"),
        lambda rate: rate <= HIGH,
        "uniform subspaces, heads with the same share in the task's",
        named("64", other_larger="other larger, same share, uniform"),
        named("64", share_in_the_task_subspace="share of heads on the common direction"),
    ),
)


class TSLASubspace(Check):
    """The Grassmannian statement of Yang, Cho and Inoue 2026 (arXiv 2509.24164) on TR scores."""

    name = "tsla-subspace"
    title = "A large TR score singles out the task's label subspace"
    claims = tuple(rule.claim for rule in RULES)

    def cells(self, preset: Preset) -> list[Cell]:
        """One cell per dimension and seed; 3 seeds, or 10 for the paper preset with more draws."""
        seeds = preset.seeds or {"quick": 3, "paper": 10}[preset.name]
        draws = {"quick": 20000, "paper": 60000}[preset.name]
        return [
            Cell(self.name, {"dimension": dimension, "draws": draws, "seed": seed})
            for dimension in DIMENSIONS
            for seed in range(seeds)
        ]

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Rates by name, each a list of one. Raises UsageError below 8 dimensions or 5000 draws."""
        dimension, draws = cell.settings["dimension"], cell.settings["draws"]
        if dimension < 8 or dimension % 4:
            raise UsageError(
                f"dimension is {dimension}; tsla-subspace needs a multiple of 4 of at least 8, "
                "for subspaces of 4 and of a quarter of the dimensions"
            )
        if draws < LEAST_DRAWS:
            raise UsageError(f"draws is {draws}; tsla-subspace needs at least {LEAST_DRAWS}")
        generator = torch.Generator().manual_seed(1000 * cell.settings["seed"] + dimension)
        figures = measure(dimension, draws, generator)
        return {name: [rate] for name, rate in figures.items()}

    def judge(self, measured: Measured) -> list[Finding]:
        """One finding per rule; a claim holds where it holds for every seed."""
        runs = runs_by("dimension", measured)
        return [rule.judge(runs) for rule in RULES]

    def draw(self, measured: Measured, figure: Figure) -> None:
        draw(runs_by("dimension", measured), figure)
