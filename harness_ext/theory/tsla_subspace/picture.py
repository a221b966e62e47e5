"""The picture of `tsla-subspace`: three panels of failure rates against dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness_ext.theory.rules import Runs
from harness_ext.theory.tsla_subspace.sampling import LABELS, OTHERS, SHARE
from harness_ext.theory.tsla_subspace.subspaces import exceeding_probability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST = 1e-5
"""Where the scale ends; rates of 0 are drawn there."""


def draw(runs: Runs, figure: Figure) -> None:
    """Failure rates for a large share, for shares about chance, and where the reading matters."""
    figure.set_size_inches(15, 5.5)
    axes = figure.subplots(1, 3)
    for axis, title, curves in (
        (
            axes[0],
            f"A head with {SHARE:.0%} in the task's subspace, m = {LABELS}",
            {
                "other larger, aligned": "one other subspace",
                "any of many larger, aligned": f"any of {OTHERS} others",
                "other larger, unrelated": "random head, one other",
                "any of many larger, unrelated": f"random head, any of {OTHERS}",
            },
        ),
        (
            axes[1],
            "Subspaces of a quarter of all dimensions",
            {
                "other larger, above chance": "a share of 40 %",
                "other larger, below chance": "a share of 10 %",
            },
        ),
        (
            axes[2],
            f"What counts as a large score, m = {LABELS}",
            {
                "other larger, top by score": "top 3 % by |P a|",
                "other larger, top by share": "top 3 % by |P a| / |a|",
                "other larger, common direction": "labels share a direction",
                "other larger, same share, uniform": "same share, uniform labels",
            },
        ),
    ):
        _panel(axis, runs, curves)
        axis.set_title(title)
    grid = np.arange(8, 65)
    exact = [exceeding_probability(SHARE, int(dimension), LABELS) for dimension in grid]
    axes[0].plot(grid, exact, "k--", linewidth=0.8, label="closed form")
    axes[1].set_ylim(bottom=0.005)
    for axis in axes:
        axis.legend(fontsize=8, loc="lower left")


def _panel(axis: Axes, runs: Runs, curves: dict[str, str]) -> None:
    """Means over seeds with the range as bars."""
    dimensions = sorted(int(dimension) for dimension in runs)
    for index, (name, label) in enumerate(curves.items()):
        rates = np.array([runs[str(dimension)][name] for dimension in dimensions])
        rates = np.maximum(rates, FEWEST)
        mean = rates.mean(axis=1)
        bars = np.stack([mean - rates.min(axis=1), rates.max(axis=1) - mean])
        axis.errorbar(
            dimensions,
            mean,
            bars,
            marker="o",
            markersize=3,
            capsize=2,
            label=label,
            color=f"C{index}",
        )
    axis.set(
        xlabel="dimension d",
        ylabel="draws in which the other holds as much or more",
        yscale="log",
        ylim=(FEWEST, 1.3),
    )
    axis.grid(alpha=0.25)
