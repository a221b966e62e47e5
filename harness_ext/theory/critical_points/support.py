"""Part (b): what D looks like after free training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from harness_ext.theory.axes import whole_numbers
from harness_ext.theory.linear_attention.optimum import least_risk
from harness_ext.theory.linear_attention.prompts import TOKENS, Format
from harness_ext.theory.linear_attention.structure import Structure
from harness_ext.theory.linear_attention.training import Recipe, initial_weights, train

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure


def measure(
    layout: Format,
    layers: int,
    n: int,
    d: int,
    flips: bool,
    steps: int,
    batch: int,
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Shares of D's squared norm on the support, seed by seed, and the mean |D| of layer 1."""
    recipe = Recipe(steps, batch, flips=flips)
    support = Structure(layout, layers).support(n)
    trained, risks = train(layout, layers, n, d, seeds, recipe)
    generator = torch.Generator().manual_seed(seeds[0])
    untrained = initial_weights(generator, layout, layers, n, d, len(seeds), recipe.scale)
    columns = _plain_columns(layout, n)
    first = trained.position[:, 0]
    return {
        "share": _share(first, support, columns).tolist(),
        "untrained": _share(untrained.position[:, 0], support, columns).tolist(),
        "chance": float(support[:-1, columns].float().mean()),
        "arrows": (1 - _mass(first, columns) / _mass(first, columns | True)).tolist(),
        "risk": risks.tolist(),
        "least structured risk": least_risk(layout, layers, n, d, range(4)).risk,
        "heat": first.abs().mean(0).tolist(),
    }


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error, of two values or more."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / len(values) ** 0.5)


def draw(cells: list[tuple[Any, dict[str, Any]]], figure: SubFigure) -> None:
    """Heat maps of |D| in layer 1, a mean over seeds, by format and sign flips."""
    cases = sorted({(at["layout"], at["flips"]) for at, _ in cells})
    axes = figure.subplots(1, len(cases), squeeze=False)[0]
    for axis, case in zip(axes, cases, strict=True):
        own = [f["heat"] for at, f in cells if (at["layout"], at["flips"]) == case]
        heat = np.mean(own, axis=0)
        image = axis.imshow(heat / heat.max(), cmap="viridis", vmin=0, vmax=1)
        flips = "with" if case[1] else "without"
        axis.set(title=f"{case[0]}, {flips} flips", xlabel="query position", ylabel="key position")
        whole_numbers(axis)
    figure.colorbar(image, ax=axes, label="mean |D|, largest = 1", shrink=0.8)
    figure.suptitle("D of the first layer, trained freely")


def _plain_columns(layout: Format, n: int) -> Tensor:
    """Which columns of D are not an arrow's, shape (p,)."""
    side = TOKENS[layout]
    plain = torch.ones(n + 1, side, dtype=torch.bool)
    if layout == "triplet":
        plain[:, 1] = False
    return plain.flatten()


def _mass(position: Tensor, columns: Tensor) -> Tensor:
    # The last key is hidden: its row is never trained, only decays.
    return position[..., :-1, columns].square().sum((-2, -1))


def _share(position: Tensor, support: Tensor, columns: Tensor) -> Tensor:
    return _mass(position * support, columns) / _mass(position, columns)
