"""The check `rank-one`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset, verdict
from harness_ext.theory.rank_one.algebra import (
    best_cosine,
    cosine_bound,
    least_error,
    least_error_formula,
    pair_at,
)
from harness_ext.theory.rank_one.model import ANSWERS, TASKS, answer_cosines
from harness_ext.theory.weight_orthogonality import FAMILY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

D = 4
TOLERANCE = 1e-6
NEAR = 0.05
OTHER_OPTIMA = (1.0, 1.5)
"""Shares a of the answer that pairs carry at other points of the same risk; b = 1 − a."""
SOURCE = "Dong et al. 2026 (arXiv 2506.09048), Proposition 4"

CLAIMS = (
    Claim(
        "least-error",
        "The least error of a rank-one W with Wx = y and Wy = x is 1 − |cos θ| for unit vectors, "
        "so that one exists if and only if x = y or x = −y.",
        f"{SOURCE}, with the error worked out",
        "‖Wx − y‖² + ‖Wy − x‖² at the best W found by search in 4 dimensions, against the formula",
        "1e-6: the search stops at gradients of 1e-9; at 5° the formula is already 0.004",
        "holds",
    ),
    Claim(
        "cosine-bound",
        "With one vector, the mean cosine of the two answers with y and x reaches √((1+|cos "
        "θ|)/2), 0.71 at 90°, and no more.",
        "follows from Proposition 4's setting, derived here",
        "the greatest mean cosine found by search over vectors, against the formula",
        "1e-6, the accuracy of the search",
        "holds",
    ),
    Claim(
        "linear-model",
        "The linear model in context answers a pair's bijection at every angle; injected, one "
        "vector does so at 0° and 180° only and stays below the bound between. All vectors do as "
        "well as the prompt at the optimum whose arrows carry half of the answer (a = b = ½; two "
        "layers, C₁ = 0).",
        f"{SOURCE} and section 4",
        "mean cosine of the answer with the right one, over prompts, both queries of a pair; "
        "two-layer triplet model with C₁ = 0, n = 10, at a = b = ½, M Mᵀ = I, m = 0; beside it all "
        f"vectors at other points of the same risk, {FAMILY}",
        "one vector: above 0.999 at 0° and 180°, below 0.75 at 90°, the bound being 0.71, and no "
        "pair above its bound; ICL above 0.9 at every angle; all vectors within 0.01 of ICL",
        "holds",
    ),
    Claim(
        "identity-tasks",
        "One vector solves identity and negation as tasks, on isotropic x.",
        "the exception of Proposition 4 read as one of tasks",
        "the same cosine for W = I and W = −I on isotropic x",
        "within 0.05 of ICL, half of what one step of descent is short of 1; a random line in 4 "
        "dimensions gives 0.42",
        "does not hold",
    ),
)


class RankOne(Check):
    """Proposition 4, in algebra and in the linear model."""

    name = "rank-one"
    title = "One vector is a rank-one map and cannot go both ways"
    claims = CLAIMS

    def cells(self, preset: Preset) -> list[Cell]:
        quick = preset.name == "quick"
        seeds = preset.seeds or (1 if quick else 10)
        step = 15 if quick else 5
        angles = sorted({*range(0, 181, step), 5, 175})
        prompts = 500 if quick else 20_000
        return [
            Cell(self.name, dict(angle=angle, d=D, n=10, prompts=prompts, seed=seed))
            for angle in angles
            for seed in range(seeds)
        ]

    def measure(self, cell: Cell) -> dict[str, Any]:
        angle, d, n, prompts, seed = (
            cell.settings[key] for key in ("angle", "d", "n", "prompts", "seed")
        )
        x, y = pair_at(angle, d, seed)
        return {
            "error": {str(rank): least_error(x, y, rank, seed) for rank in (1, 2)},
            "cosine": {str(count): best_cosine(x, y, count, seed) for count in (1, 2)},
            "other optima": {
                str(a): answer_cosines(angle, d, n, prompts, "both ways", seed, a)["all vectors"]
                for a in OTHER_OPTIMA
            },
            "model": {task: answer_cosines(angle, d, n, prompts, task, seed) for task in TASKS},
        }

    def judge(self, measured: Measured) -> list[Finding]:
        return [
            _judge_error(measured),
            _judge_cosine(measured),
            _judge_model(measured),
            _judge_identity(measured),
        ]

    def draw(self, measured: Measured, figure: Figure) -> None:
        figure.set_size_inches(15, 4.5)
        error, cosine, model = figure.subplots(1, 3)
        angles = _angles(measured)
        fine = np.linspace(0, 180, 361)
        error.plot(fine, [least_error_formula(angle) for angle in fine], "k-", lw=0.8)
        cosine.plot(fine, [cosine_bound(angle) for angle in fine], "k-", lw=0.8)
        for count, marker in (("1", "o"), ("2", "x")):
            own = [m["error"][count] for _, m in measured]
            error.plot(angles, own, marker, fillstyle="none", label=f"rank {count}, search")
            own = [m["cosine"][count] for _, m in measured]
            cosine.plot(angles, own, marker, fillstyle="none", label=f"vectors: {count}, search")
        for name in ANSWERS:
            own = [m["model"]["both ways"][name]["mean"] for _, m in measured]
            style = "kx" if name == "all vectors" else ".-"  # on top of ICL's line
            model.plot(angles, own, style, label=name)
        one = [m["model"]["one way"]["one vector"]["mean"] for _, m in measured]
        model.plot(angles, one, "+:", label="one vector, x → y only")
        own = [m["model"]["isotropic"]["one vector"]["mean"] for _, m in measured]
        model.plot(angles, own, "v--", label="one vector, isotropic x", markersize=4)
        model.plot(fine, [cosine_bound(angle) for angle in fine], "k-", lw=0.8, label="bound")
        error.set(title="Least error of W (line: 1 − |cos θ|)", ylabel="‖Wx − y‖² + ‖Wy − x‖²")
        cosine.set(title="Best mean cosine (line: bound)", ylabel="mean cosine of both answers")
        model.set(
            title="Linear model, n = 10", ylabel="cosine with the right answer", ylim=(0, 1.05)
        )
        for axes in (error, cosine, model):
            axes.set(xlabel="angle of x and y, degrees", xticks=range(0, 181, 45))
            axes.legend(fontsize=7)


def _angles(measured: Measured) -> list[float]:
    return [cell.settings["angle"] for cell, _ in measured]


def _between(measured: Measured) -> list[dict[str, Any]]:
    return [m for cell, m in measured if cell.settings["angle"] not in (0, 180)]


def _judge_error(measured: Measured) -> Finding:
    formula = [least_error_formula(angle) for angle in _angles(measured)]
    off = _furthest([m["error"]["1"] for _, m in measured], formula)
    free = max(m["error"]["2"] for _, m in measured)
    least = min(m["error"]["1"] for m in _between(measured))
    return Finding(
        "least-error",
        verdict(off <= TOLERANCE, free <= TOLERANCE < least),
        f"search and formula differ by at most {off:.1e} at {len(formula)} angles; between 0° and "
        f"180° the error is at least {least:.4f}",
        f"rank two: error at most {free:.1e} at every angle",
        {"off": off, "least": least, "rank two": free},
    )


def _judge_cosine(measured: Measured) -> Finding:
    formula = [cosine_bound(angle) for angle in _angles(measured)]
    off = _furthest([m["cosine"]["1"] for _, m in measured], formula)
    two = min(m["cosine"]["2"] for _, m in measured)
    return Finding(
        "cosine-bound",
        verdict(off <= TOLERANCE, two >= 1 - TOLERANCE),
        f"search and formula differ by at most {off:.1e}; least {min(formula):.4f}",
        f"two vectors: at least {two:.6f} at every angle",
        {"off": off, "two vectors": two},
    )


def _judge_model(measured: Measured) -> Finding:
    def mean(task: str, answer: str, angles: Sequence[int] | None = None) -> list[float]:
        return [
            m["model"][task][answer]["mean"]
            for cell, m in measured
            if angles is None or cell.settings["angle"] in angles
        ]

    icl, one = mean("both ways", "ICL"), mean("both ways", "one vector")
    ends, middle = mean("both ways", "one vector", (0, 180)), mean("both ways", "one vector", (90,))
    over = max(m["model"]["both ways"]["one vector"]["over"] for _, m in measured)
    gap = _furthest(mean("both ways", "all vectors"), icl)
    forward = min(mean("one way", "one vector"))
    others = {a: [m["other optima"][str(a)]["mean"] for _, m in measured] for a in OTHER_OPTIMA}
    elsewhere = ", ".join(
        f"{_between_words(own)} at a = {a:g}, b = {1 - a:g}" for a, own in others.items()
    )
    return Finding(
        "linear-model",
        verdict(
            min(ends) > 0.999
            and max(middle) < 0.75
            and over < TOLERANCE
            and min(icl) > 0.9
            and gap < 0.01,
            forward > 0.999,
        ),
        f"one vector {min(ends):.4f} at 0° and 180°, {max(middle):.3f} at 90°, least "
        f"{min(one):.3f}; "
        f"furthest over the bound {over:+.1e}; ICL at least {min(icl):.3f}; all vectors within "
        f"{gap:.1e} of it (a = b = ½), but at other points of the same risk {elsewhere}",
        f"one vector for x → y alone: at least {forward:.4f} at every angle",
        {
            "ends": ends,
            "middle": middle,
            "over": over,
            "least ICL": min(icl),
            "gap": gap,
            "other optima": {str(a): own for a, own in others.items()},
        },
    )


def _judge_identity(measured: Measured) -> Finding:
    ends = [m["model"] for cell, m in measured if cell.settings["angle"] in (0, 180)]
    best = max(m["isotropic"]["one vector"]["mean"] for m in ends)
    icl = min(m["isotropic"]["ICL"]["mean"] for m in ends)
    pair = min(m["both ways"]["one vector"]["mean"] for m in ends)
    shown = max(m["both ways"]["ICL"]["mean"] for m in ends)
    return Finding(
        "identity-tasks",
        verdict(best > icl - NEAR, pair > shown - NEAR),
        f"one vector reaches {best:.3f} on isotropic x, where ICL has {icl:.3f}",
        f"one vector on multiples of one pair: {pair:.4f}, ICL {shown:.4f}",
        {"isotropic": best, "ICL": icl, "pair": pair},
    )


def _between_words(values: Sequence[float]) -> str:
    least, most = (f"{value + 0.0:.3f}".replace("-0.000", "0.000") for value in _ends(values))
    return least if least == most else f"{least} to {most}"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _furthest(left: Sequence[float], right: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(left, right, strict=True))
