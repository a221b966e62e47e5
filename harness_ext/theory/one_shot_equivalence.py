"""Check `one-shot-equivalence`: an injected vector against one demonstration (Figure 4c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset, verdict
from harness_ext.theory.linear_attention.model import Weights, prediction, update
from harness_ext.theory.linear_attention.optimum import least_risk, two_layer_numbers
from harness_ext.theory.linear_attention.prompts import Pairs, tokens
from harness_ext.theory.linear_attention.structure import (
    INTO_ARROW,
    Structure,
    embedded,
    orthonormal_mixing,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

D = 4
ARROW = 1.0
BAND = 0.1
PROMPTS = 4000
PROCEDURES = {
    "text": {"collinear": False, "query": True, "per_prompt": True},
    "batch norm": {"collinear": False, "query": False, "per_prompt": False},
    "collinear": {"collinear": True, "query": True, "per_prompt": True},
    "released": {"collinear": True, "query": False, "per_prompt": False},
}
"""How prompts and vectors are made, from the paper's text to its released code: inputs collinear
with the factor of W, the query shown at extraction, each vector normalised by its own norm."""

SOURCE = "Dong et al. 2026 (arXiv 2506.09048), Figure 4c"
MEASURED = (
    "risk of a zero-shot triplet prompt with the injected vector, over that of a one-shot prompt, "
    "for W of rank one and normalised outputs, L = 2 and 3"
)


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
            f"{PROMPTS} prompts and two seeds, so that chance does not decide",
            "holds",
        ),
        Claim(
            "as-released",
            "The same holds in the released procedure: inputs collinear with W's factor, the query "
            "zeroed at extraction, vectors divided by the batch's mean norm.",
            f"{SOURCE}, released code",
            MEASURED,
            f"every ratio within {BAND:.0%} of 1, as above",
            "does not hold",
        ),
    )

    def cells(self, preset: Preset) -> list[Cell]:
        """One per layers, n and seed."""
        quick = preset.name == "quick"
        return [
            Cell(self.name, {"layers": layers, "n": n, "d": D, "seed": seed})
            for layers in (2, 3)
            for n in (5, 10, 15, 20, 25, 30)
            for seed in range(preset.seeds or (2 if quick else 8))
        ]

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Risks of one-shot prompts, of injected vectors and of mismatched ones, by procedure."""
        at = cell.settings
        layers, n, d = at["layers"], at["n"], at["d"]
        numbers = _numbers(layers, n, d)
        generator = torch.Generator().manual_seed(at["seed"])
        model = _Model(numbers, layers, n, d, orthonormal_mixing(generator, n))
        return {
            name: _risks(generator, model, **procedure) for name, procedure in PROCEDURES.items()
        }

    def judge(self, measured: Measured) -> list[Finding]:
        """The ratio at every L and n, a mean over seeds."""
        return [
            _finding("as-described", "text", measured),
            _finding("as-released", "released", measured),
        ]

    def draw(self, measured: Measured, figure: Figure) -> None:
        """Ratios against n, by procedure, with the control."""
        figure.set_size_inches(11, 4)
        axes = figure.subplots(1, 2, sharey=True)
        for axis, layers in zip(axes, (2, 3), strict=True):
            # Collinear inputs with own norms are answered without error, a ratio of two zeros.
            for procedure in ("text", "batch norm", "released"):
                _draw_ratios(axis, measured, layers, procedure, "vector")
            _draw_ratios(axis, measured, layers, "text", "mismatched")
            axis.axhspan(1 - BAND, 1 + BAND, color="grey", alpha=0.2)
            axis.set(
                title=f"L = {layers}", xlabel="demonstrations n", yscale="log", ylim=(1e-2, 10)
            )
        axes[0].set_ylabel("risk / risk of one-shot ICL")
        figure.suptitle("Injected vector against one demonstration, W of rank one")
        axes[1].legend(fontsize=8)


class _Model:
    """A structured triplet model, fed prompts of its own n or of fewer demonstrations."""

    def __init__(self, numbers: Tensor, layers: int, n: int, d: int, mixing: Tensor) -> None:
        self.structure = Structure("triplet", layers)
        self.numbers, self.n, self.d, self.mixing = numbers, n, d, mixing
        self.full = self.structure.weights(numbers, n, d, mixing)

    def vectors(self, pairs: Pairs, query: bool) -> Tensor:
        """First layer's output at the last arrow, shape (prompts, 2d)."""
        inputs = pairs.inputs.clone()
        if not query:
            inputs[..., -1] = 0
        state = tokens(Pairs(pairs.maps, inputs), "triplet")
        # An arrow is empty at first, so the first layer attends from it by position alone.
        read = state @ self.full.position[0, :, -2] / self.n
        upper, lower = read.split(self.d, -1)
        return torch.cat([upper @ self.full.upper[0].T, lower @ self.full.lower[0].T], -1)

    def predictions(self, pairs: Pairs, vectors: Tensor | None = None) -> Tensor:
        """Predictions for prompts of few demonstrations, shape (prompts, d).

        With vectors, they replace the state at the last arrow after the first layer.
        """
        count = pairs.inputs.shape[-1] - 1
        state = tokens(pairs, "triplet")
        weights = self._shortened(count)
        for layer in range(self.structure.layers):
            state = state + update(weights, layer, state, self.n)
            if layer == 0 and vectors is not None:
                state = torch.cat([state[..., :-2], vectors[..., None], state[..., -1:]], -1)
        return prediction(state)

    def _shortened(self, count: int) -> Weights:
        # The last pairs' rows and columns of D: the query's block keeps its own weights.
        size = 3 * (count + 1)
        return self.full.map({"position": self.full.position[..., -size:, -size:]})


def _numbers(layers: int, n: int, d: int) -> Tensor:
    """Structured numbers whose arrows carry half of what is known about the task.

    Two layers: the optimum. More: the model that predicts what the single-token optimum of one
    layer fewer does, every pair being in two tokens, its own and the arrows'.
    """
    if layers == 2:
        return two_layer_numbers("triplet", n, d, ARROW)
    single = least_risk("single", layers - 1, n, d, range(4)).numbers
    numbers = embedded(single, "triplet")
    rows = numbers.view(layers, -1)
    rows[0, -len(INTO_ARROW) :] = ARROW
    rows[1:, 2] /= 1 + ARROW**2  # each pair is attended to twice
    rows[1:, -len(INTO_ARROW) - 1] = single.view(layers - 1, -1)[:, 3]
    return numbers


def _risks(
    generator: torch.Generator, model: _Model, collinear: bool, query: bool, per_prompt: bool
) -> dict[str, float]:
    long = _rank_one(generator, model.n, model.d, collinear)
    other = _rank_one(generator, model.n, model.d, collinear)
    short = Pairs(long.maps, long.inputs[..., -2:])
    zero = Pairs(long.maps, long.inputs[..., -1:])
    vectors = model.vectors(long, query)
    mixed = torch.cat([vectors[..., : model.d], model.vectors(other, query)[..., model.d :]], -1)
    answers = long.answers
    return {
        "one-shot": _risk(model.predictions(short), answers, per_prompt),
        "vector": _risk(
            model.predictions(zero, _normalised(vectors, per_prompt)), answers, per_prompt
        ),
        "mismatched": _risk(
            model.predictions(zero, _normalised(mixed, per_prompt)), answers, per_prompt
        ),
    }


def _rank_one(generator: torch.Generator, n: int, d: int, collinear: bool) -> Pairs:
    """Prompts with W = u vᵀ; collinear inputs are multiples of v."""
    u, v = torch.randn(2, PROMPTS, d, generator=generator, dtype=torch.float64)
    inputs = torch.randn(PROMPTS, d, n + 1, generator=generator, dtype=torch.float64)
    if collinear:
        inputs = v[..., None] * inputs[:, :1]
    return Pairs(u[..., None] * v[:, None], inputs)


def _normalised(values: Tensor, per_prompt: bool) -> Tensor:
    norms = values.norm(dim=-1, keepdim=True)
    return values / (norms if per_prompt else norms.mean()).clamp_min(1e-300)


def _risk(predicted: Tensor, answers: Tensor, per_prompt: bool) -> float:
    sums = _normalised(predicted, per_prompt) + _normalised(answers, per_prompt)
    return float(sums.square().sum(-1).mean())


def _ratios(measured: Measured, procedure: str, kind: str) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], list[float]] = {}
    for cell, figures in measured:
        own = figures[procedure]
        key = cell.settings["layers"], cell.settings["n"]
        found.setdefault(key, []).append(own[kind] / own["one-shot"])
    return {key: float(np.mean(values)) for key, values in found.items()}


def _in_band(ratio: float) -> bool:
    return abs(ratio - 1) <= BAND


def _finding(claim: str, procedure: str, measured: Measured) -> Finding:
    ratios, control = (
        _ratios(measured, procedure, "vector"),
        _ratios(measured, procedure, "mismatched"),
    )
    passed = all(_in_band(ratio) for ratio in ratios.values())
    # A difference in the released procedure means something only where the text's shows none.
    text = _ratios(measured, "text", "vector").values()
    fails = not any(_in_band(ratio) for ratio in control.values())
    fails &= procedure == "text" or all(_in_band(ratio) for ratio in text)
    return Finding(
        claim,
        verdict(passed, fails),
        f"ratio between {min(ratios.values()):.3g} and {max(ratios.values()):.3g} over "
        f"{len(ratios)} points (L, n)",
        "x and y halves from different W: ratio between "
        f"{min(control.values()):.3g} and {max(control.values()):.3g}",
        {
            "ratios": {f"L={layers} n={n}": ratio for (layers, n), ratio in ratios.items()},
            "control": {f"L={layers} n={n}": ratio for (layers, n), ratio in control.items()},
        },
    )


def _draw_ratios(axis: Any, measured: Measured, layers: int, procedure: str, kind: str) -> None:
    ratios = {n: r for (deep, n), r in _ratios(measured, procedure, kind).items() if deep == layers}
    control = kind == "mismatched"
    label = "control: halves of different W" if control else procedure
    axis.plot(*zip(*sorted(ratios.items()), strict=True), "k:s" if control else "-o", label=label)
