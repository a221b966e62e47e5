"""The check `weight-orthogonality`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from harness_ext.theory.axes import whole_numbers
from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset, verdict
from harness_ext.theory.weight_orthogonality.risk import (
    OTHER_FUNCTION,
    SAME_FUNCTION,
    SEARCHES,
    compare_variants,
    search,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPTIMAL = 1e-9
ORTHOGONAL = 1e-3
OFF = 0.05
SAME = 1e-9
FAMILY = (
    "the least of two layers with C₁ = 0: 1.333 at d = 4 and n = 10, where two layers with nothing "
    "held reach 0.7513"
)


class WeightOrthogonality(Check):
    """Proposition 3, as printed and as it holds."""

    name = "weight-orthogonality"
    title = "Orthogonal weights of the demonstrations in task vectors"
    claims = (
        Claim(
            "as-printed",
            "At every optimum of two layers with C₁ = 0, Λ4Λ4ᵀ = λ diag(I_n, 0): the rows of the "
            "demonstrations are orthogonal and alike, and the query's row is zero.",
            "Dong et al. 2026 (arXiv 2506.09048), Proposition 3",
            "‖Λ4Λ4ᵀ − λ diag(I_n, 0)‖ / ‖Λ4Λ4ᵀ‖ with the best λ, at points of least risk: those "
            "that a search from random starts ends in, and Gaussian Λ4 that nothing reads (b = 0)",
            "0.05: fifty times what the search leaves undecided; least risk means exact risk "
            f"within 1e-9 of d(d + 1)/(n + d + 1), {FAMILY}",
            "does not hold",
        ),
        Claim(
            "where-read",
            "At every optimum of two layers with C₁ = 0 and b ≠ 0, arrows being read, M Mᵀ = λ I "
            "and M m = 0; m itself may be anything M maps to 0.",
            "Dong et al. 2026, Proposition 3, corrected",
            "‖M Mᵀ − λ I‖ / ‖M Mᵀ‖ and |M m| / (‖M‖ |m|) where a search ended with more than 1 % "
            "of tr S from arrows; pairs kept apart or joined to half, and nothing held",
            "0.001: the risk is quadratic around its least value and is reached to 1e-9",
            "holds",
        ),
        Claim(
            "same-function",
            "Two layers with C₁ = 0, the same κS and M m = 0 answer alike, whatever Λ4.",
            "risk as a function of aI + bMMᵀ, derived here",
            "greatest difference of whole models' answers, token by token, over the greatest",
            "1e-9: float64; models that differ in κS differ by more than 0.01",
            "holds",
        ),
    )

    def cells(self, preset: Preset) -> list[Cell]:
        quick = preset.name == "quick"
        seeds = preset.seeds or (8 if quick else 40)
        return [
            Cell(self.name, dict(n=n, d=4, seed=seed))
            for n in ((3, 6) if quick else (2, 3, 5, 10, 20))
            for seed in range(seeds)
        ]

    def measure(self, cell: Cell) -> dict[str, Any]:
        n, d, seed = (cell.settings[key] for key in ("n", "d", "seed"))
        found = {kind: search(n, d, seed, kind) for kind in SEARCHES}
        return {"searches": found, "variants": compare_variants(n, d, seed)}

    def judge(self, measured: Measured) -> list[Finding]:
        found = [one for _, m in measured for one in m["searches"].values()]
        variants = [m["variants"] for _, m in measured]
        optimal = [f for f in found if f["excess"] <= OPTIMAL]
        unread = [v["unread"] for v in variants]
        off = [f["printed"] for f in optimal] + [v["printed"] for v in unread]
        proper = max(v["as printed"]["printed"] for v in variants)
        read = [f for f in optimal if f["share"] > 0.01]
        worst = max((max(f["rows"], f["query"]) for f in read), default=None)
        start = min(f["start"] for f in found)
        cost = min(v[name]["excess"] for v in variants for name in ("skewed", "query read"))
        same = max(v[name]["answers"] for v in variants for name in SAME_FUNCTION)
        other = min(v[name]["answers"] for v in variants for name in OTHER_FUNCTION)
        return [
            Finding(
                "as-printed",
                verdict(max(off) <= OFF, proper <= SAME and bool(optimal)),
                f"{sum(x > OFF for x in off)} of {len(off)} points of least risk are off, by up to "
                f"{max(off):.2f}; {len(optimal)} of {len(found)} searches reached the least risk",
                f"with orthonormal rows and m = 0 the same measure gives {proper:.1e}",
                {"off": off, "searches": len(found), "optimal": len(optimal)},
            ),
            Finding(
                "where-read",
                verdict(
                    None if worst is None else worst <= ORTHOGONAL, start > OFF and cost > 1e-3
                ),
                "no search reads arrows"
                if worst is None
                else f"off by at most {worst:.1e} in {len(read)} optima that read arrows",
                f"off by {start:.2f} or more where the searches started; at half of tr S from "
                f"arrows, skewed rows or M m ≠ 0 cost at least {cost:.4f}",
                {"worst": worst, "optima": len(read), "cost": cost},
            ),
            Finding(
                "same-function",
                verdict(same <= SAME, other > 0.01),
                f"answers differ by at most {same:.1e}: " + ", ".join(SAME_FUNCTION),
                f"by at least {other:.2f}: " + ", ".join(OTHER_FUNCTION),
                {"same": same, "other": other},
            ),
        ]

    def draw(self, measured: Measured, figure: Figure) -> None:
        figure.set_size_inches(13, 4.2)
        left, middle, right = figure.subplots(1, 3)
        largest = max(cell.settings["n"] for cell, _ in measured)
        found = [one for _, m in measured for one in m["searches"].values()]
        found = [one for one in found if one["excess"] <= OPTIMAL]
        examples = [m["searches"]["arrows only"] for c, m in measured if c.settings["n"] == largest]
        gram = np.array(max(examples, key=lambda one: one["printed"])["gram"])
        size = np.abs(gram).max()
        image = left.imshow(gram, cmap="RdBu_r", vmin=-size, vmax=size)
        figure.colorbar(image, ax=left, shrink=0.8, label="entry of Λ4Λ4ᵀ")
        left.set(
            title="Λ4Λ4ᵀ where a search ended\n(last row: the query)",
            xlabel="row of Λ4",
            ylabel="row of Λ4",
        )
        whole_numbers(left)
        for key, label in (
            ("printed", "from λ diag(I, 0)"),
            ("rows", "MMᵀ from λI"),
            ("query", "Mm from 0"),
        ):
            middle.plot([f["share"] for f in found], [f[key] for f in found], ".", label=label)
        middle.axhline(OFF, color="grey", linestyle=":", linewidth=0.8)
        middle.set(
            title="Distances at the optima found",
            xlabel="share of tr S from arrows",
            ylabel="relative distance",
            yscale="log",
        )
        middle.legend(fontsize=8)
        names = list(measured[0][1]["variants"])
        for place, name in enumerate(names):
            excess = [max(m["variants"][name]["excess"], 1e-17) for _, m in measured]
            right.plot([place] * len(excess), excess, "o", fillstyle="none", color=f"C{place}")
        right.set_xticks(range(len(names)), names, rotation=30, ha="right")
        right.set(
            title="Risk above the least (0 drawn as 1e-17)",
            ylabel="E‖TF + Wx‖²/d − least",
            yscale="log",
        )
