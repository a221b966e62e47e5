"""Task vectors of the triplet model, injected into prompts without demonstrations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness_ext.theory.linear_attention.model import Weights, prediction, update
from harness_ext.theory.linear_attention.optimum import least_risk, two_layer_numbers
from harness_ext.theory.linear_attention.prompts import Pairs, tokens
from harness_ext.theory.linear_attention.structure import (
    INTO_ARROW,
    Structure,
    embedded,
)

ARROW = 1.0
PROMPTS = 4000
PROCEDURES = {
    "text": {"collinear": False, "query": True, "per_prompt": True},
    "batch norm": {"collinear": False, "query": False, "per_prompt": False},
    "collinear": {"collinear": True, "query": True, "per_prompt": True},
    "released": {"collinear": True, "query": False, "per_prompt": False},
}
"""How prompts and vectors are made, from the paper's text to its released code: inputs collinear
with the factor of W, the query shown at extraction, each vector normalised by its own norm."""


class Model:
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


def built_numbers(layers: int, n: int, d: int) -> Tensor:
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


def risks(
    generator: torch.Generator, model: Model, collinear: bool, query: bool, per_prompt: bool
) -> dict[str, Any]:
    """Risk of one-shot prompts, and ratios to it with standard errors: of zero-shot prompts with
    the injected vector, and with one whose halves come from different maps.
    """
    long = _rank_one(generator, model.n, model.d, collinear)
    other = _rank_one(generator, model.n, model.d, collinear)
    short = Pairs(long.maps, long.inputs[..., -2:])
    zero = Pairs(long.maps, long.inputs[..., -1:])
    vectors = model.vectors(long, query)
    mixed = torch.cat([vectors[..., : model.d], model.vectors(other, query)[..., model.d :]], -1)
    answers = long.answers
    base = _losses(model.predictions(short), answers, per_prompt)
    figures: dict[str, Any] = {"one-shot": float(base.mean())}
    for name, injected in (("vector", vectors), ("mismatched", mixed)):
        predicted = model.predictions(zero, _normalised(injected, per_prompt))
        figures[name] = _ratio(_losses(predicted, answers, per_prompt), base)
    return figures


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


def _losses(predicted: Tensor, answers: Tensor, per_prompt: bool) -> Tensor:
    sums = _normalised(predicted, per_prompt) + _normalised(answers, per_prompt)
    return sums.square().sum(-1)


def _ratio(losses: Tensor, base: Tensor) -> tuple[float, float]:
    """Ratio of two means over the same prompts, and its standard error (delta method)."""
    ratio = losses.mean() / base.mean()
    error = (losses - ratio * base).std() / len(base) ** 0.5 / base.mean()
    return float(ratio), float(error)
