"""Check `one-shot-equivalence`: an injected vector against one demonstration (Figure 4c)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset, verdict
from harness_ext.theory.linear_attention.optimum import least_risk
from harness_ext.theory.linear_attention.structure import orthonormal_mixing
from harness_ext.theory.one_shot_equivalence.injection import (
    PROCEDURES,
    PROMPTS,
    Model,
    built_numbers,
    risks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

D = 4
BAND = 0.1
SOURCE = "Dong et al. 2026 (arXiv 2506.09048), Figure 4c"
MEASURED = (
    "risk of a zero-shot triplet prompt with the injected vector, over that of a one-shot prompt, "
    "for W of rank one and normalised outputs; L = 2 and 3, arrows carrying what pairs do"
)
BUILT, SEARCHED = "built", "searched"
"""Models whose arrows carry half of what is known about the task, and points of least risk that a
search ended in, where nothing says what arrows carry."""


class OneShotEquivalence(Check):
    """The first layer's output at the last arrow works like one demonstration."""

    name = "one-shot-equivalence"
    title = "An injected task vector is worth one demonstration"
    claims = (
        Claim(
            "as-described",
            "With isotropic inputs, as the paper's text has them, the injected vector's risk is "
            "that of one-shot in-context learning.",
            SOURCE,
            MEASURED,
            f"every ratio within {BAND:.0%} of 1: more than three standard errors of a ratio from "
            f"{PROMPTS} prompts and two seeds, so that chance does not decide; it fails where one "
            "is outside by three standard errors more, for some have heavy tails",
            "holds",
        ),
        Claim(
            "at-any-optimum",
            "The same at every point of least risk of three layers that a search ends in.",
            f"{SOURCE}, with nothing held",
            "the same ratio with isotropic inputs at optima from several random starts, L = 3",
            f"every ratio within {BAND:.0%} of 1, as above",
            "does not hold",
        ),
        Claim(
            "as-released",
            "The same holds in the released procedure: inputs collinear with W's factor, the query "
            "zeroed at extraction, vectors divided by the batch's mean norm.",
            f"{SOURCE}, released code",
            MEASURED,
            f"every ratio within {BAND:.0%} of 1, as above; one outside counts only where the "
            "text's procedure is inside with the same models, at every L and n",
            "does not hold",
        ),
    )

    def cells(self, preset: Preset) -> list[Cell]:
        """One per model, layers, n and seed; searches, which take long, at fewer n."""
        quick = preset.name == "quick"
        sizes = (5, 10, 15, 20, 25, 30)
        seeds = range(preset.seeds or (2 if quick else 8))
        models = [(BUILT, layers, n) for layers in (2, 3) for n in sizes]
        models += [(SEARCHED, 3, n) for n in ((30,) if quick else sizes)]
        return [
            Cell(self.name, {"model": model, "layers": layers, "n": n, "d": D, "seed": seed})
            for model, layers, n in models
            for seed in seeds
        ]

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Risks of one-shot prompts, and ratios to them by procedure, with their errors."""
        at = cell.settings
        layers, n, d = at["layers"], at["n"], at["d"]
        if layers < 2 or n < d:
            raise UsageError(
                f"layers is {layers} and n is {n}; a vector is read after the first of at least 2 "
                f"layers, and the least risk needs n of at least d = {d}"
            )
        if at["model"] == SEARCHED:
            numbers = least_risk("triplet", layers, n, d, [at["seed"]]).numbers
        else:
            numbers = built_numbers(layers, n, d)
        generator = torch.Generator().manual_seed(at["seed"])
        model = Model(numbers, layers, n, d, orthonormal_mixing(generator, n))
        return {
            name: risks(generator, model, **procedure) for name, procedure in PROCEDURES.items()
        }

    def judge(self, measured: Measured) -> list[Finding]:
        """The ratio at every L and n, a mean over seeds; searched models each for itself."""
        built, searched = _models(measured, BUILT), _models(measured, SEARCHED)
        text = ratios(built, "text", "vector")
        reliable = all(_in_band(ratio) for ratio, _ in text.values())
        reference = (
            f"the text's procedure, models whose arrows carry what pairs do: "
            f"{_range(text.values())}, {'all' if reliable else 'not all'} within {BAND:.0%} of 1"
        )
        return [
            _finding("as-described", "text", built, True, ""),
            _searched_finding(searched, reliable, reference),
            # A difference in the released procedure means something only where the text's has none.
            _finding("as-released", "released", built, reliable, reference),
        ]

    def draw(self, measured: Measured, figure: Figure) -> None:
        """Ratios against n, by procedure, with the control."""
        figure.set_size_inches(11, 4.5)
        axes = figure.subplots(1, 2, sharey=True)
        built, searched = _models(measured, BUILT), _models(measured, SEARCHED)
        # Collinear inputs with own norms are answered without error, a ratio of two zeros.
        lines = [
            ("text", "vector", "text", "o-"),
            ("batch norm", "vector", "batch norm, query zeroed", "^-"),
            ("released", "vector", "released: collinear as well", "v-"),
            ("text", "mismatched", "control: halves of different W", "ks:"),
        ]
        for axis, layers in zip(axes, (2, 3), strict=True):
            for procedure, kind, label, style in lines:
                found = ratios(built, procedure, kind)
                sizes = sorted(n for depth, n in found if depth == layers)
                values, errors = zip(*(found[layers, n] for n in sizes), strict=True)
                axis.errorbar(sizes, values, errors, fmt=style, capsize=3, label=label)
            axis.axhspan(1 - BAND, 1 + BAND, color="grey", alpha=0.2)
            axis.set(
                title=f"L = {layers}", xlabel="demonstrations n", yscale="log", ylim=(1e-2, 10)
            )
        each = [(cell.settings["n"], figures["text"]["vector"][0]) for cell, figures in searched]
        axes[1].plot(*zip(*each, strict=True), "k+", label="text, single optima from search")
        axes[0].set_ylabel("risk / risk of one-shot ICL, ± 1 SE")
        figure.suptitle("Injected vector against one demonstration, W of rank one")
        handles, labels = axes[1].get_legend_handles_labels()
        figure.legend(handles, labels, fontsize=8, ncols=5, loc="outside lower center")


def _models(measured: Measured, model: str) -> Measured:
    return [(cell, figures) for cell, figures in measured if cell.settings["model"] == model]


def ratios(
    measured: Measured, procedure: str, kind: str
) -> dict[tuple[int, int], tuple[float, float]]:
    """Mean over seeds of the ratio of risks, and its standard error, by layers and n."""
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for cell, figures in measured:
        key = cell.settings["layers"], cell.settings["n"]
        found.setdefault(key, []).append(figures[procedure][kind])
    return {key: _mean(values) for key, values in found.items()}


def _mean(values: list[tuple[float, float]]) -> tuple[float, float]:
    means, errors = np.array(values).T
    return float(means.mean()), float(np.sqrt((errors**2).sum()) / len(errors))


def _in_band(ratio: float) -> bool:
    return abs(ratio - 1) <= BAND


def _near_one(found: Iterable[tuple[float, float]]) -> bool | None:
    """Whether all ratios are in the band; None where those outside may be so by chance."""
    outside = [(ratio, error) for ratio, error in found if not _in_band(ratio)]
    far = any(abs(ratio - 1) > BAND + 3 * error for ratio, error in outside)
    return False if far else None if outside else True


def _range(found: Iterable[tuple[float, float]]) -> str:
    """The least and the greatest ratio, each with its own standard error."""
    (low, low_error), (high, high_error) = min(own := list(found)), max(own)
    return (
        f"ratio between {low:.3g} ± {low_error:.2g} and {high:.3g} ± {high_error:.2g} (SE) over "
        f"{len(own)} points"
    )


def _finding(
    claim: str, procedure: str, built: Measured, reliable: bool, reference: str
) -> Finding:
    """With a reference, that alone is shown for a difference: mismatched halves differ as well."""
    found = ratios(built, procedure, "vector")
    mismatched = ratios(built, procedure, "mismatched")
    control = [ratio for ratio, _ in mismatched.values()]
    near = _near_one(found.values())
    opposed = not any(map(_in_band, control))
    halves = f"x and y halves from different W: {_range(mismatched.values())}"
    if reference and near is not True:
        opposed, shown = True, reference
    else:
        shown = "; ".join(filter(None, (reference, halves)))
    return Finding(
        claim,
        verdict(near, reliable and opposed),
        _range(found.values()),
        shown,
        {
            "ratios": {f"L={layers} n={n}": ratio for (layers, n), ratio in found.items()},
            "errors": {f"L={layers} n={n}": error for (layers, n), (_, error) in found.items()},
            "mismatched": control,
        },
    )


def _searched_finding(searched: Measured, reliable: bool, reference: str) -> Finding:
    found = [figures["text"]["vector"] for _, figures in searched]
    means = [ratio for ratio, _ in found]
    missed = sum(not _in_band(ratio) for ratio in means)
    return Finding(
        "at-any-optimum",
        verdict(_near_one(found), reliable),
        f"{missed} of {len(means)} searched optima are outside; {_range(found)}",
        reference,
        {"ratios": means},
    )
