"""Training of unrestricted weights on sampled prompts, all seeds as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness_ext.theory.linear_attention.model import Weights, prediction, update
from harness_ext.theory.linear_attention.prompts import (
    TOKENS,
    Format,
    draw_pairs,
    tokens,
)


@dataclass(frozen=True)
class Recipe:
    """How weights are trained: AdamW as in the released code of Dong et al. 2026.

    Attributes:
        steps: steps, each on fresh prompts; the rate halves eight times on the way.
        batch: prompts per seed and step.
        rate: first learning rate.
        scale: standard deviation of the initial weights.
        clip: largest gradient norm of a seed.
        flips: multiply D by a random sign per pair and prompt, as the released code does.
    """

    steps: int
    batch: int
    rate: float = 0.02
    scale: float = 0.1
    clip: float = 1.0
    flips: bool = False


def initial_weights(
    generator: torch.Generator,
    layout: Format,
    layers: int,
    n: int,
    d: int,
    seeds: int,
    scale: float,
) -> Weights:
    """Normal weights of `seeds` models, with a leading seed dimension, single precision."""
    side = TOKENS[layout] * (n + 1)
    sizes = (d, d, d, side)
    return Weights(
        *(scale * torch.randn(seeds, layers, size, size, generator=generator) for size in sizes)
    )


def train(
    layout: Format,
    layers: int,
    n: int,
    d: int,
    seeds: Sequence[int],
    recipe: Recipe,
    start: Weights | None = None,
) -> tuple[Weights, Tensor]:
    """Trained weights, with a leading seed dimension, and each seed's risk, shape (seeds,).

    The seeds are trained together, one batched model, on prompts drawn for the whole block: no
    seed's weights touch another's. The risk is the mean over the last tenth of the steps. Training
    goes on from `start`, single precision with the seed dimension, or begins with normal weights.
    """
    generator = torch.Generator().manual_seed(int("".join(f"{seed:03}" for seed in seeds)) % 2**63)
    if start is None:
        start = initial_weights(generator, layout, layers, n, d, len(seeds), recipe.scale)
    weights = start.map({k: v.clone().requires_grad_() for k, v in start.tensors().items()})
    parameters = list(weights.tensors().values())
    optimizer = torch.optim.AdamW(parameters, recipe.rate, betas=(0.9, 0.9), weight_decay=0.05)
    halving = max(1, recipe.steps // 8)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, halving, 0.5)
    history = []
    for _ in range(recipe.steps):
        risks = _risks(generator, weights, layout, n, d, recipe)
        optimizer.zero_grad()
        risks.sum().backward()
        _clip(parameters, recipe.clip)
        optimizer.step()
        schedule.step()
        history.append(risks.detach())
    last = torch.stack(history[-max(1, recipe.steps // 10) :]).mean(0)
    return weights.map({k: v.detach() for k, v in weights.tensors().items()}), last


def _risks(
    generator: torch.Generator, weights: Weights, layout: Format, n: int, d: int, recipe: Recipe
) -> Tensor:
    """Mean loss of each seed on fresh prompts, shape (seeds,)."""
    batch = (len(weights.upper), recipe.batch)
    pairs = draw_pairs(generator, n, d, *batch, dtype=torch.float32)
    state = tokens(pairs, layout)
    for layer in range(weights.layers):
        signs = _signs(generator, layout, n, batch) if recipe.flips else None
        state = state + update(weights, layer, state, n, signs)
    return (prediction(state) + pairs.answers).square().mean((-2, -1))


def _signs(generator: torch.Generator, layout: Format, n: int, batch: tuple[int, int]) -> Tensor:
    """A random sign per pair for its x and y, 1 for its arrow, shape (*batch, p)."""
    side = TOKENS[layout]
    signs = torch.ones(*batch, n + 1, side)
    drawn = 2.0 * torch.randint(0, 2, (*batch, n + 1), generator=generator) - 1
    signs[..., 0] = signs[..., -1] = drawn
    return signs.flatten(-2)


def _clip(parameters: Sequence[Tensor], most: float) -> None:
    """Scale each seed's gradients to a norm of at most `most`."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norms = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    factors = (most / norms.clamp_min(most))[:, None, None, None]
    for gradient in gradients:
        gradient.mul_(factors)
