"""The claims of `critical-points`, how they are judged and drawn."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

from harness_ext.errors import UsageError
from harness_ext.theory.axes import plain_logarithmic
from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset, verdict
from harness_ext.theory.critical_points import stationary, support

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "Dong et al. 2026 (arXiv 2506.09048), Theorems 1, 2 and 7"
CASES = (
    ("single", True, 2),
    ("pairwise", True, 2),
    ("triplet", True, 2),
    ("pairwise", False, 3),
    ("triplet", False, 3),
)
"""Format, whether x and y start in different halves, layers."""


class CriticalPoints(Check):
    """The structured optimum is a critical point of the unrestricted model; training goes there."""

    name = "critical-points"
    title = "Structured optima are critical points, and free training finds their support"
    claims = (
        Claim(
            "stationary",
            "At the optimum inside the structured set the gradient with respect to all entries of "
            "A, B, C and D vanishes: single, pairwise, triplet, and x and y in the same half.",
            SOURCE,
            "largest |z| of the gradient's entries over fresh prompts, without sign flips of D",
            "Bonferroni's bound on the largest of so many Student t scores at a chance of 0.001, "
            "because only a few entries are noisy and norms would hide the others.",
            "holds",
        ),
        Claim(
            "symmetry",
            "Entries off the structure vanish at every structured point, optimal or not, as long "
            "as Λ4 is 0 or has orthonormal rows: the data's symmetries make them vanish.",
            "proofs of Theorems 1 and 2, sharper",
            "largest |z| of off-structure entries at perturbed structured points",
            "the same bound, for the same reason",
            "holds",
        ),
        Claim(
            "support",
            "D trained freely puts its mass on the predicted support.",
            f"{SOURCE}, Figure 2",
            "share of the first layer's squared norm on the support, columns of arrows left out "
            "(Λ4 makes chance high there), mean over seeds, with and without random sign flips",
            "more than half, by two standard errors: the support is at most a fifth of the "
            "entries, so mass spread evenly, or on another pattern of its size, stays far below.",
            "holds",
        ),
    )

    def cells(self, preset: Preset) -> list[Cell]:
        """One per case and seed for gradients; one per format and seed block for training."""
        quick = preset.name == "quick"
        if preset.seeds == 1:
            raise UsageError(
                f"--seeds is 1; {self.name} needs at least 2, for the standard errors of its shares"
            )
        repeats = preset.seeds or (1 if quick else 8)
        gradients = [
            {"part": "gradient", "layout": layout, "separable": separable, "layers": layers}
            | {"n": 6 if quick else 10, "d": 3 if quick else 4, "seed": seed}
            for layout, separable, layers in CASES
            for seed in range(repeats)
        ]
        seeds = list(range(preset.seeds or (4 if quick else 40)))
        block = 8
        size = (
            {"n": 4, "d": 2, "steps": 1200, "batch": 128}
            if quick
            else {"n": 10, "d": 4, "steps": 20_000, "batch": 1000}
        )
        training = [
            {"part": "training", "layout": layout, "layers": 2, "flips": flips, **size}
            | {"seeds": seeds[k : k + block]}
            for layout in ("pairwise", "triplet")
            for flips in (False, True)
            for k in range(0, len(seeds), block)
        ]
        return [Cell(self.name, settings) for settings in gradients + training]

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Gradient scores, or what trained weights look like."""
        settings = dict(cell.settings)
        part = settings.pop("part")
        return stationary.measure(**settings) if part == "gradient" else support.measure(**settings)

    def judge(self, measured: Measured) -> list[Finding]:
        """All cases must agree."""
        gradients = [(c.settings, f) for c, f in measured if c.settings["part"] == "gradient"]
        trained = [(c.settings, f) for c, f in measured if c.settings["part"] == "training"]
        return [_stationary(gradients), _symmetry(gradients), _support(trained)]

    def draw(self, measured: Measured, figure: Figure) -> None:
        """Largest scores against their bound, and the first layer's D after training."""
        gradients = [(c.settings, f) for c, f in measured if c.settings["part"] == "gradient"]
        trained = [(c.settings, f) for c, f in measured if c.settings["part"] == "training"]
        figure.set_size_inches(12, 7)
        grid = figure.add_gridspec(2, 1)
        top, bottom = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])
        _draw_scores(gradients, top)
        support.draw(trained, bottom)


def _stationary(cells: list[tuple[Any, dict[str, Any]]]) -> Finding:
    worst = {_case(at): f["optimum"] for at, f in cells}
    at_optimum = max(max(f["optimum"].values()) / f["bound"] for _, f in cells)
    moved = min(f["perturbed"]["on"] / f["bound"] for _, f in cells)
    return Finding(
        "stationary",
        verdict(at_optimum < 1, moved > 1),
        f"largest |z| at the optima is {at_optimum:.2f} of its bound over {len(cells)} points",
        f"perturbed inside the structure, the largest |z| is at least {moved:.1f} times the bound",
        {"largest scores": worst, "share of bound": at_optimum, "perturbed share": moved},
    )


def _symmetry(cells: list[tuple[Any, dict[str, Any]]]) -> Finding:
    moved = max(f["perturbed"]["off"] / f["bound"] for _, f in cells)
    gaussian = min(f["gaussian"]["off"] / f["bound"] for _, f in cells if "gaussian" in f)
    return Finding(
        "symmetry",
        verdict(moved < 1, gaussian > 1),
        f"largest off-structure |z| at perturbed points is {moved:.2f} of its bound",
        f"with a Gaussian Λ4 it is at least {gaussian:.1f} times the bound",
        {"share of bound": moved, "share of bound, Gaussian mixing": gaussian},
    )


def _support(cells: list[tuple[Any, dict[str, Any]]]) -> Finding:
    shares, low = {}, []
    for layout, flips in sorted({(at["layout"], at["flips"]) for at, _ in cells}):
        own = [f for at, f in cells if (at["layout"], at["flips"]) == (layout, flips)]
        values = [share for f in own for share in f["share"]]
        average, error = support.mean_and_error(values)
        low.append(average - 2 * error)
        key = f"{layout}, {'with' if flips else 'without'} flips"
        shares[key] = {
            "share": average,
            "standard error": error,
            "chance": own[0]["chance"],
            "arrow columns' share of all": mean(s for f in own for s in f["arrows"]),
        }
    untrained = max(share for _, f in cells for share in f["untrained"])
    listed = ", ".join(
        f"{key} {v['share']:.2f} ± {v['standard error']:.2f}" for key, v in shares.items()
    )
    return Finding(
        "support",
        verdict(min(low) > 0.5, untrained < 0.5),
        f"share on the support: {listed}",
        f"untrained weights have at most {untrained:.2f} there",
        {"shares": shares, "untrained": untrained},
    )


def _case(settings: Any) -> str:
    kind = "" if settings["separable"] else ", inseparable"
    return f"{settings['layout']}{kind}, seed {settings['seed']}"


def _draw_scores(cells: list[tuple[Any, dict[str, Any]]], figure: Any) -> None:
    axis = figure.subplots()
    marks = {"optimum": ("o", "tab:green"), "perturbed": ("s", "tab:red"), "gaussian": ("^", "k")}
    names = sorted({_case(at).rsplit(",", 1)[0] for at, _ in cells})
    seen = set()
    for settings, figures in cells:
        place = names.index(_case(settings).rsplit(",", 1)[0])
        for point, (mark, colour) in marks.items():
            for shift, side in ((-0.15, "on"), (0.15, "off")):
                if point not in figures:
                    continue
                name = f"{point}, {side} the structure"
                axis.plot(
                    place + shift,
                    figures[point][side] / figures["bound"],
                    mark,
                    color=colour,
                    fillstyle="full" if side == "on" else "none",
                    label=None if name in seen else name,
                )
                seen.add(name)
    axis.axhline(1, color="grey", linewidth=1)
    axis.set_xticks(range(len(names)), names)
    axis.set(
        yscale="log", ylabel="largest |z| / bound", title="Gradient of the risk in every weight"
    )
    plain_logarithmic(axis.yaxis)
    axis.legend(fontsize=7, ncols=3)
