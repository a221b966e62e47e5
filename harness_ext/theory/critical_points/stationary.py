"""Part (a): gradients with respect to every weight at structured points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.gradients import gradient_scores, score_bound
from harness_ext.theory.linear_attention.model import Weights
from harness_ext.theory.linear_attention.optimum import least_risk, two_layer_numbers
from harness_ext.theory.linear_attention.prompts import Format
from harness_ext.theory.linear_attention.structure import (
    Structure,
    inseparable_weights,
    orthonormal_mixing,
)

LEVEL = 1e-3
"""Chance that a single stationary point is called not stationary."""

NOISE = 0.25
"""Relative size of a perturbation inside the structured set."""

ARROW = 0.7
"""Weight of the arrows at the triplet optimum: away from 0, where Λ4 would not matter."""


def measure(
    layout: Format, separable: bool, layers: int, n: int, d: int, seed: int
) -> dict[str, Any]:
    """Largest |z| of the gradient's entries on and off the structure, at several points."""
    if n < 2:
        raise UsageError(f"n is {n}; permuting demonstrations needs at least 2")
    if separable and layout != "single" and layers != 2:
        raise UsageError(
            f"layers is {layers}; the optimum of {layout} prompts is known exactly for 2 only"
        )
    generator = torch.Generator().manual_seed(seed)
    support = Structure(layout, layers).support(n)
    figures: dict[str, Any] = {}
    for name, weights in _points(generator, layout, separable, layers, n, d).items():
        scores = gradient_scores(generator, weights, layout, n, d, separable)
        figures[name] = _largest(scores, support)
    entries = sum(score.numel() for score in scores.values())
    return figures | {"bound": score_bound(entries, LEVEL), "entries": entries}


def _points(
    generator: torch.Generator, layout: Format, separable: bool, layers: int, n: int, d: int
) -> dict[str, Weights]:
    if not separable:
        best = least_risk("single", layers - 1, n, d, range(4)).numbers
        moved = _perturbed(generator, best)
        return {
            "optimum": inseparable_weights(best, layout, n, d),
            "perturbed": inseparable_weights(moved, layout, n, d),
        }
    structure = Structure(layout, layers)
    if layout == "single":
        best = least_risk("single", layers, n, d, range(4)).numbers
    else:
        best = two_layer_numbers(layout, n, d, ARROW if layout == "triplet" else 0.0)
    moved = _perturbed(generator, best)
    mixing = orthonormal_mixing(generator, n)
    points = {
        "optimum": structure.weights(best, n, d, mixing),
        "perturbed": structure.weights(moved, n, d, mixing),
    }
    if layout == "triplet":
        gaussian = torch.randn(n + 1, n + 1, generator=generator, dtype=torch.float64)
        gaussian /= (n + 1) ** 0.5
        points["gaussian"] = structure.weights(best, n, d, gaussian)
    return points


def _perturbed(generator: torch.Generator, numbers: Tensor) -> Tensor:
    noise = torch.randn(len(numbers), generator=generator, dtype=numbers.dtype)
    return numbers * (1 + NOISE * noise)


def _largest(scores: dict[str, Tensor], support: Tensor) -> dict[str, float]:
    on, off = [], []
    for name, score in scores.items():
        mask = support if name == "position" else torch.eye(score.shape[-1]) > 0
        on.append(score[..., mask].abs().max())
        if not mask.all():
            off.append(score[..., ~mask].abs().max())
    return {"on": float(max(on)), "off": float(max(off))}
