"""The picture of the check `dropout-weights`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from harness_ext.theory.check import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAP_RATE = 0.5


def draw(parts: Mapping[str, Measured], figure: Figure) -> None:
    """Coefficients, optima by keep rate, and what the arrows are worth."""
    figure.set_size_inches(15, 9)
    axes = figure.subplots(2, 3)
    _coefficients(axes[0, 0], parts["agreement"])
    most = max(cell.settings["n"] for cell, _ in parts["optimum"])
    _weights(axes[0, 1], parts["optimum"], most, figure)
    _last_columns(axes[0, 2], parts["optimum"], most)
    _turning_points(axes[1, 0], parts["turn"])
    _exact(axes[1, 1], parts["exact"])
    _trained(axes[1, 2], parts["trained"])


def _coefficients(axes: Axes, measured: Measured) -> None:
    places = np.arange(len(measured))
    base = np.array([m["enumerated"] for _, m in measured])
    for name, marker in (("printed", "x"), ("derived", "o")):
        ratio = np.array([m[name] for _, m in measured]) / base
        axes.plot(places, ratio, marker, label=f"{name} coefficients", fillstyle="none")
    simulated = np.array([m["simulated"] for _, m in measured]) / base
    errors = np.array([m["error"] for _, m in measured]) / base
    axes.errorbar(places, simulated, 2 * errors, fmt=".", label="simulation ± 2 s.e.", alpha=0.7)
    axes.axhline(1, color="grey", linewidth=0.8)
    labels = [
        f"n={c.settings['n']} p={c.settings['p']} {c.settings['arrows']}" for c, _ in measured
    ]
    step = max(len(labels) // 12, 1)
    axes.set_xticks(places[::step], labels[::step], rotation=60, ha="right", fontsize=7)
    axes.set(title="Dropout risk of the arrows", ylabel="risk / average of all masks")
    axes.margins(y=0.3)
    axes.legend(fontsize=7, loc="lower left")


def _weights(axes: Axes, measured: Measured, n: int, figure: Figure) -> None:
    weights = next(
        m["derived"]["weights"]
        for c, m in measured
        if c.settings["causal"] and (c.settings["n"], c.settings["p"]) == (n, MAP_RATE)
    )
    image = axes.imshow(np.array(weights), cmap="viridis")
    figure.colorbar(image, ax=axes, label="|M|", shrink=0.8)
    axes.set(
        title=f"Best causal M, n = {n}, p = {MAP_RATE}", xlabel="arrow", ylabel="demonstration"
    )
    axes.set_xticks(range(n + 1), [str(k) for k in range(1, n + 2)])
    axes.set_yticks(range(n), [str(k) for k in range(1, n + 1)])


def _last_columns(axes: Axes, measured: Measured, n: int) -> None:
    from matplotlib import colormaps

    for c, m in measured:
        if c.settings["causal"] and c.settings["n"] == n:
            column = np.array(m["derived"]["weights"])[:, -1]
            p = c.settings["p"]
            axes.plot(range(1, n + 1), column, ".-", color=colormaps["plasma"](p), label=f"p = {p}")
    axes.set(title=f"Last arrow, causal, n = {n}", xlabel="demonstration", ylabel="weight |M|")
    axes.legend(fontsize=8)


def _turning_points(axes: Axes, measured: Measured) -> None:
    sizes = [c.settings["n"] for c, _ in measured]
    for name, marker in (("derived", "o-"), ("printed", "x--")):
        axes.plot(sizes, [m[name]["rate"] for _, m in measured], marker, label=f"best, {name}")
    stable = measured[0][1]["derived"]["stable"]
    axes.axhline(stable, color="grey", linestyle=":", label="local minimum from here (derived)")
    axes.set(
        title="Where the identity takes over",
        xlabel="demonstrations n",
        ylabel="keep rate p",
        ylim=(0, 1),
        xticks=sizes,
    )
    axes.legend(fontsize=8)


def _exact(axes: Axes, measured: Measured) -> None:
    for n in sorted({c.settings["n"] for c, _ in measured}):
        rows = [(c.settings["p"], m) for c, m in measured if c.settings["n"] == n]
        rates = [p for p, _ in rows]
        for name, style in (("triplet", "o-"), ("causal", "s--")):
            label = f"n = {n}" + (", causal" if name == "causal" else "")
            axes.plot(rates, [m["pairwise"] - m[name] for _, m in rows], style, label=label)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(
        title="What arrows are worth (exact, one descent)",
        xlabel="keep rate p",
        ylabel="pairwise − triplet risk",
    )
    axes.legend(fontsize=8)


def _trained(axes: Axes, measured: Measured) -> None:
    rates = sorted({c.settings["p"] for c, _ in measured})
    for k, name in enumerate(("triplet", "arrows cut off")):
        place = [rates.index(c.settings["p"]) + 0.2 * k - 0.1 for c, _ in measured]
        share = [100 * m["gain"][name] / m["risk"]["pairwise"] for _, m in measured]
        errors = [200 * m["error"][name] / m["risk"]["pairwise"] for _, m in measured]
        axes.errorbar(place, share, errors, fmt="o", capsize=4, label=name)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_xticks(range(len(rates)), [f"p = {p}" for p in rates])
    axes.set(
        title="Trained models (± 2 s.e.)",
        xlabel="keep rate",
        ylabel="risk below that of pairwise, %",
        xlim=(-0.5, len(rates) - 0.5),
    )
    axes.legend(fontsize=8)
