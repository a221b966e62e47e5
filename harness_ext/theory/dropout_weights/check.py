"""The check `dropout-weights`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness_ext.theory.check import Cell, Check, Finding, Measured, Preset, verdict
from harness_ext.theory.dropout_weights import optimum, value
from harness_ext.theory.dropout_weights.claims import CLAIMS
from harness_ext.theory.dropout_weights.quartic import (
    derived,
    enumerated,
    printed,
    quartic,
    simulated,
)
from harness_ext.theory.dropout_weights.tokens import draw_masks
from harness_ext.theory.linear_attention.prompts import Format, draw_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

D = 4
ROUNDING = 1e-10
DEVIATIONS = 5.0
GRADES = {"derived": derived, "printed": printed}
LEVEL = 2e-3
MODELS: dict[str, tuple[Format, bool]] = {
    "pairwise": ("pairwise", False),
    "triplet": ("triplet", True),
    "arrows cut off": ("triplet", False),
}


class DropoutWeights(Check):
    """Proposition 5: coefficients, optimum and worth of task vectors under token dropout."""

    name = "dropout-weights"
    title = "Task vectors as redundancy under token dropout"
    claims = CLAIMS

    def cells(self, preset: Preset) -> list[Cell]:
        quick = preset.name == "quick"
        seeds = preset.seeds or (1 if quick else 5)
        rates = (0.3, 0.5, 0.8) if quick else (0.1, 0.3, 0.5, 0.7, 0.9)
        prompts = 100_000 if quick else 400_000
        sizes = (5, 10) if quick else (5, 8, 10, 15)
        settings: list[dict[str, Any]] = [
            dict(part="agreement", n=n, d=D, p=p, arrows=arrows, prompts=prompts, seed=seed)
            for n in ((2, 3) if quick else (2, 3, 4))
            for p in rates
            for arrows in ("random", "one")
            for seed in range(seeds)
        ]
        for k, setting in enumerate(settings):  # else all would share one sample's luck
            setting["seed"] += 1000 * k
        grid = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
        starts = 12 if quick else 60
        for n in sizes:
            common = dict(n=n, d=D, starts=starts, seed=0)
            settings.append(dict(part="turn", **common))
            settings += [dict(part="optimum", p=p, causal=True, **common) for p in grid]
            settings.append(dict(part="optimum", p=0.5, causal=False, **common))
        settings += [
            dict(part="exact", n=n, d=D, p=p, seed=0)
            for n in ((4,) if quick else (3, 5, 8))
            for p in (0.3, 0.5, 0.7, 0.9, 1.0)
        ]
        training = (
            dict(n=3, steps=400, batch=150, models=2, evaluate=60_000)
            if quick
            else dict(n=5, steps=3000, batch=500, models=4, evaluate=500_000)
        )
        settings += [
            dict(part="trained", p=p, d=D, seed=seed, **training)
            for p in ((0.7, 1.0) if quick else (0.3, 0.5, 0.7, 0.9, 1.0))
            for seed in range(seeds)
        ]
        return [Cell(self.name, content) for content in settings]

    def measure(self, cell: Cell) -> dict[str, Any]:
        settings = dict(cell.settings)
        return PARTS[settings.pop("part")](**settings)

    def judge(self, measured: Measured) -> list[Finding]:
        return [
            *judge_coefficients(_part(measured, "agreement")),
            *_judge_causal(_part(measured, "optimum"), _part(measured, "turn")),
            _judge_exact(_part(measured, "exact")),
            _judge_trained(_part(measured, "trained")),
        ]

    def draw(self, measured: Measured, figure: Figure) -> None:
        from harness_ext.theory.dropout_weights.picture import draw

        draw({part: _part(measured, part) for part in PARTS}, figure)


def _agreement(n: int, d: int, p: float, arrows: str, prompts: int, seed: int) -> dict[str, Any]:
    weights = np.random.default_rng(seed).normal(size=(n, n + 1))
    if arrows == "one":
        weights = np.zeros((n, n + 1))
        weights[:, -1] = 1
    weights /= np.linalg.norm(weights)
    mean, error = simulated(weights, p, d, prompts, seed)
    forms = {name: quartic(weights, grade(p, d)) for name, grade in GRADES.items()}
    return {"enumerated": enumerated(weights, p, d), "simulated": mean, "error": error} | forms


def _optimum(n: int, d: int, p: float, causal: bool, starts: int, seed: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, grade in GRADES.items():
        least, weights = optimum.best_weights(n, grade(p, d), causal, starts, seed)
        figures[name] = {
            "value": least,
            "weights": np.abs(weights).tolist(),
            "rises": optimum.rises(weights[:, -1]),
            "identity": bool(np.allclose(np.abs(weights), optimum.identity(n), atol=1e-6)),
        }
    return figures


def _turn(n: int, d: int, starts: int, seed: int) -> dict[str, Any]:
    return {
        name: {
            "rate": optimum.degenerate_from(n, d, grade, starts, seed),
            "stable": optimum.identity_stable_from(d, grade),
        }
        for name, grade in GRADES.items()
    }


def _exact(n: int, d: int, p: float, seed: int) -> dict[str, Any]:
    least = value.least_one_descent_risk
    return {
        "pairwise": least(n, d, p, arrows=False, seed=seed)[0],
        "triplet": least(n, d, p, arrows=True, seed=seed)[0],
        "causal": least(n, d, p, arrows=True, causal=True, seed=seed)[0],
    }


def _trained(
    n: int, d: int, p: float, seed: int, steps: int, batch: int, models: int, evaluate: int
) -> dict[str, Any]:
    setting = value.Training(n, d, p, steps, batch, models)
    trained = {
        name: (layout, value.train(layout, arrows, setting, seed))
        for name, (layout, arrows) in MODELS.items()
    }
    # Not the prompts of the training: another generator.
    generator = torch.Generator().manual_seed(10**6 + seed)
    block, found = 20_000, []
    with torch.no_grad():
        for _ in range(max(evaluate // block, 1)):
            pairs = draw_pairs(generator, n, d, block)
            kept = draw_masks(generator, p, 2, block, 3 * (n + 1))
            found.append({k: value.losses(w, at, pairs, kept) for k, (at, w) in trained.items()})
    losses = {name: torch.cat([one[name] for one in found], -1) for name in MODELS}
    best = {name: own[own.mean(-1).argmin()] for name, own in losses.items()}
    gaps = {name: best["pairwise"] - own for name, own in best.items()}
    return {
        "risk": {name: own.mean().item() for name, own in best.items()},
        "gain": {name: gap.mean().item() for name, gap in gaps.items()},
        "error": {name: gap.std().item() / gap.numel() ** 0.5 for name, gap in gaps.items()},
        "all": {name: own.mean(-1).tolist() for name, own in losses.items()},
    }


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "agreement": _agreement,
    "optimum": _optimum,
    "turn": _turn,
    "exact": _exact,
    "trained": _trained,
}


def _part(measured: Measured, part: str) -> Measured:
    return [(cell, figures) for cell, figures in measured if cell.settings["part"] == part]


def judge_coefficients(measured: Measured) -> list[Finding]:
    off = {name: max(abs(m[name] / m["enumerated"] - 1) for _, m in measured) for name in GRADES}
    z = {
        name: max(abs(m[name] - m["simulated"]) / m["error"] for _, m in measured)
        for name in GRADES
    }
    agrees = {name: off[name] <= ROUNDING and z[name] <= DEVIATIONS for name in GRADES}
    sentence = {
        name: f"off by up to {off[name]:.2g} of the average of all masks, by up to "
        f"{z[name]:.1f} standard errors from the model run token by token"
        for name in GRADES
    }
    other = {"printed": "derived", "derived": "printed"}
    # Each set of coefficients is the other's control: the comparison must be able to go both ways.
    return [
        Finding(
            f"coefficients-{name}",
            verdict(agrees[name], agrees[other[name]] != agrees[name]),
            f"{name} coefficients: {sentence[name]}",
            f"{other[name]} coefficients: {sentence[other[name]]}",
            {"enumeration": off[name], "simulation": z[name], "cells": len(measured)},
        )
        for name in ("printed", "derived")
    ]


def _judge_causal(measured: Measured, turns: Measured) -> list[Finding]:
    turn = {cell.settings["n"]: figures["derived"]["rate"] for cell, figures in turns}
    causal = [(c.settings, m["derived"]) for c, m in measured if c.settings["causal"]]
    free = [m["derived"]["rises"] for c, m in measured if not c.settings["causal"]]
    below = [m for s, m in causal if s["p"] < turn[s["n"]]]
    above = [m for s, m in causal if s["p"] > turn[s["n"]]]
    rising, identities = _count(below, "rises"), _count(above, "identity")
    rates = ", ".join(f"{rate:.3f} at n = {n}" for n, rate in turn.items())
    everywhere = all(m["rises"] for _, m in causal)
    figures = {"turn": {str(n): rate for n, rate in turn.items()}}
    return [
        Finding(
            "causal-any-rate",
            # A rise everywhere counts if it can be absent, one that is missing if it can be found.
            verdict(everywhere, not any(free) if everywhere else rising > 0),
            f"from the keep rate {rates} on the identity is best ({identities} of {len(above)} "
            "optima there): all weight on the latest demonstration, none on the others",
            f"the same measure finds the rise in {rising} of {len(below)} optima below that rate",
            figures,
        ),
        Finding(
            "causal-moderate-rate",
            verdict(
                rising == len(below) > 0 and identities == len(above) > 0,
                not any(free) and not any(m["rises"] for m in above),
            ),
            f"rises in {rising} of {len(below)} optima below the turning point ({rates})",
            f"rises in {sum(free)} of {len(free)} optima without the causal mask and in "
            f"{_count(above, 'rises')} of {len(above)} beyond the turning point",
            figures,
        ),
    ]


def _judge_exact(measured: Measured) -> Finding:
    gaps = [(c.settings, m["pairwise"] - m["triplet"]) for c, m in measured]
    dropped = {f"n={s['n']} p={s['p']}": gap for s, gap in gaps if s["p"] < 1}
    kept = {f"n={s['n']} p={s['p']}": gap for s, gap in gaps if s["p"] == 1}
    return Finding(
        "redundancy",
        verdict(min(dropped.values()) > 1e-3, max(map(abs, kept.values())) < 1e-6),
        f"triplet lower by {min(dropped.values()):.4f} to {max(dropped.values()):.4f} with dropout",
        f"by at most {max(map(abs, kept.values())):.1e} without",
        {"dropout": dropped, "none": kept},
    )


def _judge_trained(measured: Measured) -> Finding:
    rates = sorted({cell.settings["p"] for cell, _ in measured})
    share: dict[tuple[str, float], float] = {}
    z: dict[tuple[str, float], float] = {}
    for p in rates:
        own = [m for cell, m in measured if cell.settings["p"] == p]
        for name in ("triplet", "arrows cut off"):
            gain = np.array([m["gain"][name] for m in own])
            error = np.array([m["error"][name] for m in own])
            share[name, p] = float(gain.mean() / np.mean([m["risk"]["pairwise"] for m in own]))
            z[name, p] = float(gain.sum() / max(np.sqrt((error**2).sum()), 1e-300))
    dropped = [p for p in rates if p < 1]
    none = share["triplet", 1.0]

    def gains(name: str) -> str:
        shares = [f"{share[name, p]:.2%} ({z[name, p]:+.1f} s.e.) at p = {p}" for p in dropped]
        return ", ".join(shares)

    return Finding(
        "redundancy-trained",
        verdict(
            all(z["triplet", p] > DEVIATIONS for p in dropped),
            abs(none) < LEVEL and all(share["arrows cut off", p] < LEVEL for p in dropped),
        ),
        f"triplet lower than pairwise by {gains('triplet')}",
        f"by {none:.2%} without dropout; with dropout but Λ4 = 0 by {gains('arrows cut off')}",
        {f"{name} p={p}": value for (name, p), value in share.items()},
    )


def _count(figures: list[dict[str, Any]], key: str) -> int:
    return sum(bool(m[key]) for m in figures)
