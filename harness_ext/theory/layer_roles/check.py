"""The check `layer-roles`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from harness_ext.errors import UsageError
from harness_ext.theory.axes import plain_logarithmic
from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset, verdict
from harness_ext.theory.layer_roles.optima import (
    pair_optimum,
    untrained,
    with_shuffled_positions,
)
from harness_ext.theory.layer_roles.shares import cost_of_no_later_mixing, roles
from harness_ext.theory.linear_attention.optimum import least_risk, single_optimum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "Dong et al. 2026 (arXiv 2506.09048), Theorems 1 and 2 and their reading"
STARTS = 8
MOST = 0.9
LOWER = 0.9
D = 4

CLAIMS = (
    Claim(
        "first-concatenates",
        "The first layer brings each pair together: its update is mixing within pairs.",
        SOURCE,
        "share of the first layer's update that mixing within pairs explains, at optima with 2 and "
        "3 layers found by search",
        "0.9: nearly all; the same weights with D's tokens in a random order stay below half",
        "holds",
    ),
    Claim(
        "later-descend",
        "Every later layer takes a step of descent: its update is −λ Z M XᵀX.",
        SOURCE,
        "share of each later layer's update that −λ Z M XᵀX explains, at the same optima",
        "0.9: nearly all; layers of single-token models, which have nothing to mix, pass it",
        "does not hold",
    ),
    Claim(
        "second-of-two-descends",
        "Of two layers the second does.",
        f"{SOURCE}, restricted to two layers",
        "the same share in what the second layer writes into the answer; B and C are multiples of "
        "the identity in the structured set, so only D could spoil it",
        "0.9; weights without structure and the first layer stay below half",
        "holds",
    ),
    Claim(
        "conditioning",
        "GD++ lowers the condition number of XXᵀ layer by layer.",
        SOURCE,
        "median condition number of X M Xᵀ as each layer of a single-token optimum meets it, 2 and "
        "3 layers",
        "each lower by a tenth at least than the one before, several times the median's standard "
        "error; for reference, plain gradient descent (A = 0) leaves X as it is by definition",
        "does not hold",
    ),
    Claim(
        "first-conditioning",
        "Its first step does; that helps: the optimum with A = 0 has a higher risk.",
        f"{SOURCE}, restricted to the first step",
        "the same numbers before and after the first layer, and both least risks (exact)",
        "lower by a tenth at least, risk below that of plain descent (A = 0, optimised likewise), "
        "which leaves X as it is by definition",
        "holds",
    ),
)


class LayerRoles(Check):
    """What the layers of optima do."""

    name = "layer-roles"
    title = "One layer concatenates, later ones descend and precondition"
    claims = CLAIMS

    def cells(self, preset: Preset) -> list[Cell]:
        quick = preset.name == "quick"
        seeds = preset.seeds or (3 if quick else 20)
        prompts = 100 if quick else 1000
        sizes = (10,) if quick else (5, 10, 20, 30)
        settings: list[dict[str, Any]] = []
        for n in sizes:
            common = dict(n=n, d=D, prompts=prompts)
            settings += [
                dict(layout=layout, layers=2, seed=seed, **common)
                for layout in ("pairwise", "triplet")
                for seed in range(seeds)
            ]
            # One start of three layers takes ten seconds: fewer of them.
            settings += [
                dict(layout="pairwise" if quick else layout, layers=3, seed=seed, **common)
                for layout in (("pairwise",) if quick else ("pairwise", "triplet"))
                for seed in range(1 if quick else seeds)
            ]
            settings += [
                dict(layout="single", layers=layers, seed=0, n=n, d=D, prompts=10 * prompts)
                for layers in (2, 3)
            ]
        return [Cell(self.name, content) for content in settings]

    def measure(self, cell: Cell) -> dict[str, Any]:
        layout, layers, n, d, prompts, seed = (
            cell.settings[key] for key in ("layout", "layers", "n", "d", "prompts", "seed")
        )

        def figures(weights: Any) -> list[dict[str, Any]]:
            return [role.figures() for role in roles(weights, layout, n, d, prompts, seed)]

        if layout == "single":
            if layers < 2:
                raise UsageError(
                    f"layers is {layers}; a step's effect on the next needs at least 2"
                )
            starts = range(STARTS * seed, STARTS * (seed + 1))
            ours = least_risk(layout, layers, n, d, starts)
            plain = single_optimum(layers, n, d, starts, [False, True, True, True])
            return {
                "risk": ours.risk,
                "roles": figures(ours.weights(n, d)),
                "plain": figures(plain.weights(n, d)),
                "plain risk": plain.risk,
            }
        weights, risk = pair_optimum(layout, layers, n, d, seed)
        return {
            "risk": risk,
            "roles": figures(weights),
            "shuffled": figures(with_shuffled_positions(weights, seed)),
            "untrained": figures(untrained(weights, seed)),
            "cost": cost_of_no_later_mixing(weights, layout, n, d, prompts, seed),
        }

    def judge(self, measured: Measured) -> list[Finding]:
        pairs = [(c.settings, m) for c, m in measured if c.settings["layout"] != "single"]
        single = [m for c, m in measured if c.settings["layout"] == "single"]
        return [
            *_judge_shares(pairs, single),
            *_judge_conditioning(single),
        ]

    def draw(self, measured: Measured, figure: Figure) -> None:
        figure.set_size_inches(14, 4.5)
        shares, condition = figure.subplots(1, 2, width_ratios=[3, 2])
        rows = [(c.settings, m) for c, m in measured if c.settings["layout"] != "single"]
        kinds = sorted({(s["layout"], s["layers"]) for s, _ in rows}, key=lambda k: (k[1], k[0]))
        places: dict[tuple[str, int, int], int] = {}
        for layout, layers in kinds:
            for layer in range(layers):
                places[layout, layers, layer] = len(places) + layers - 2
        for key, marker, colour in (("mixing", "o", "C0"), ("descent", "s", "C1")):
            x = [places[s["layout"], s["layers"], k] for s, m in rows for k in range(s["layers"])]
            y = [role[key] for _, m in rows for role in m["roles"]]
            shares.plot(x, y, marker, color=colour, fillstyle="none", label=key)
        for control, marker in (("shuffled", "x"), ("untrained", "+")):
            beside = [places[s["layout"], s["layers"], 0] + 0.2 for s, _ in rows]
            y = [m[control][0]["mixing"] for _, m in rows]
            shares.plot(beside, y, marker, color="C0", label=f"mixing, {control}")
        shares.set_xticks(
            list(places.values()),
            [f"{layout}\nL={layers}\nlayer {layer + 1}" for layout, layers, layer in places],
            fontsize=8,
        )
        shares.set(
            title="Share of a layer's update", ylabel="share of squared norm", ylim=(-0.03, 1.03)
        )
        shares.legend(fontsize=8, loc="center")
        for c, m in measured:
            s = c.settings
            if s["layout"] == "single":
                for key, style in (("roles", "o-"), ("plain", "x--")):
                    label = f"L={s['layers']}, n={s['n']}" + (", A = 0" if key == "plain" else "")
                    numbers = [role["condition"] for role in m[key]]
                    condition.plot(range(1, len(numbers) + 1), numbers, style, label=label)
        condition.set(
            title="Single tokens: state that a layer meets",
            xlabel="layer",
            ylabel="median condition number of XXᵀ",
            yscale="log",
            xticks=[1, 2, 3],
        )
        plain_logarithmic(condition.yaxis)
        condition.legend(fontsize=8)


def _judge_shares(pairs: list[tuple[Any, Any]], single: list[Any]) -> list[Finding]:
    first = [m["roles"][0]["mixing"] for _, m in pairs]
    shuffled = [m["shuffled"][0]["mixing"] for _, m in pairs]
    later = [role["descent"] for _, m in pairs for role in m["roles"][1:]]
    alone = [role["descent"] for m in single for role in m["roles"]]
    two = [m for s, m in pairs if s["layers"] == 2]
    second = [m["roles"][1]["descent"] for m in two]
    controls = [m["untrained"][1]["descent"] for m in two]
    controls += [m["roles"][0]["descent"] for m in two]
    missed = sum(share < MOST for share in later)
    costs = {depth: [m["cost"] for s, m in pairs if s["layers"] == depth] for depth in (2, 3)}
    return [
        Finding(
            "first-concatenates",
            verdict(min(first) > MOST, max(shuffled) < 0.5),
            f"mixing within pairs explains {min(first):.3f} to {max(first):.3f} of the first "
            f"layer's update in {len(first)} optima",
            f"D's tokens shuffled: at most {max(shuffled):.3f}",
            {"first": first, "shuffled": shuffled},
        ),
        Finding(
            "later-descend",
            verdict(min(later) > MOST, min(alone) > MOST),
            f"descent explains {min(later):.3f} to {max(later):.3f}; {missed} of {len(later)} "
            "later layers stay below 0.9, mixing pairs once more; with D = 0 after the first layer "
            f"the median error is up to {max(costs[3], default=1):.2g} times as large at 3 layers, "
            f"{max(costs[2], default=1):.2g} at 2",
            f"single-token models: at least {min(alone):.3f} in each of {len(alone)} layers",
            {"later": later, "single": alone, "costs of D = 0": costs},
        ),
        Finding(
            "second-of-two-descends",
            verdict(min(second) > MOST, max(controls) < 0.5),
            f"descent explains {min(second):.3f} or more in {len(second)} optima",
            f"first layers and weights without structure: at most {max(controls):.3f}",
            {"second": second, "controls": controls},
        ),
    ]


def _judge_conditioning(single: list[Any]) -> list[Finding]:
    ours = [[role["condition"] for role in m["roles"]] for m in single]
    plain = [[role["condition"] for role in m["plain"]] for m in single]
    ratios = [[b / a for a, b in pairwise(row)] for row in ours]
    moved = max(abs(value / row[0] - 1) for row in plain for value in row)
    every = max(ratio for row in ratios for ratio in row)
    first = max(row[0] for row in ratios)
    gain = min(m["plain risk"] / m["risk"] for m in single)
    paths = "; ".join(" → ".join(f"{value:.1f}" for value in row) for row in ours)
    reference = "reference: plain gradient descent leaves X as it is, factor 1 by definition"
    return [
        Finding(
            "conditioning",
            verdict(every < LOWER, moved < 1e-9),
            f"median condition numbers by layer: {paths}",
            f"the same measure sees the first step lower it, to {first:.2f} of before or less; "
            f"{reference}",
            {"paths": ours, "plain": plain},
        ),
        Finding(
            "first-conditioning",
            verdict(first < LOWER and gain > 1, moved < 1e-9),
            f"after the first step at most {first:.2f} of before; risk of plain descent {gain:.2f} "
            "times as high or more",
            reference,
            {"ratios": ratios, "gain": gain},
        ),
    ]
