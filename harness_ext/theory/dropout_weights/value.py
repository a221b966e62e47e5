"""What task vectors are worth: triplet against pairwise prompts with and without token dropout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.dropout_weights.optimum import allowed
from harness_ext.theory.dropout_weights.quartic import derived
from harness_ext.theory.dropout_weights.tokens import draw_masks, dropped_forward
from harness_ext.theory.linear_attention.model import Weights, prediction
from harness_ext.theory.linear_attention.prompts import Format, Pairs, draw_pairs, tokens
from harness_ext.theory.linear_attention.structure import Structure

PAIR_NUMBERS = 4


def one_descent_risk(mixes: Tensor, weights: Tensor | None, n: int, d: int, p: float) -> Tensor:
    """Exact risk E‖TF + W x‖² / d at the best answer scale, two layers, C = 0 in the first.

    The first layer brings x and y of a pair together in both of its tokens, by four numbers, and
    writes M into the arrows; the second takes one step of gradient descent. With P the pairs' part
    of N (diagonal, alike for all pairs), and q, r, g the means of P_ii, of P_ii² and of P_ii where
    the first layer kept both tokens, all averages follow as in :mod:`.quartic`.

    Args:
        mixes: what a pair's tokens take over: y to x's token and x to x's, then x to y's token and
            y to y's; shape (4,).
        weights: M, shape (n, n + 1), or None for pairwise prompts.
        n, d, p: demonstrations, dimensions, keep rate.

    Returns:
        scalar, d without any demonstration used.
    """
    y_to_x, x_to_x, x_to_y, y_to_y = mixes
    q = r = g = mixes.new_zeros(())
    for keeps in itertools.product((0, 1), repeat=4):
        x, y, first, second = keeps
        share = math.prod(p if keep else 1 - p for keep in keeps)
        mixed = first * (1 + x_to_x * x) * y_to_x * y + second * x_to_y * x * (1 + y_to_y * y)
        q, r, g = q + share * mixed, r + share * mixed**2, g + share * mixed * x * y
    trace = n * q
    square = n * ((d + 2) * r + (n - 1) * q**2)
    if weights is not None:
        c, squares = derived(p, d), weights**2
        form = (
            c.entries * (squares**2).sum()
            + c.rows * (squares.sum(1) ** 2).sum()
            + c.columns * (squares.sum(0) ** 2).sum()
            + c.gram * (weights @ weights.T).square().sum()
            + c.total * squares.sum() ** 2
        )
        size = squares.sum()
        trace = trace + p**3 * size
        square = square + 2 * size * ((d + 2) * p * g + (n - 1) * q * p**3) + form
    return d * (1 - p * trace**2 / square)


def least_one_descent_risk(
    n: int, d: int, p: float, arrows: bool, causal: bool = False, starts: int = 3, seed: int = 0
) -> tuple[float, np.ndarray]:
    """The least exact risk and its M, shape (n, n + 1), zero for pairwise prompts (no arrows)."""
    if n < 2:
        raise UsageError(f"n is {n}; weighing demonstrations needs at least 2")
    free = torch.from_numpy(allowed(n, causal) * arrows) > 0
    count = int(free.sum())

    def loss(numbers: Tensor) -> Tensor:
        weights = torch.zeros(n, n + 1, dtype=torch.float64)
        weights[free] = numbers[PAIR_NUMBERS:]
        return one_descent_risk(numbers[:PAIR_NUMBERS], weights if arrows else None, n, d, p)

    generator = np.random.default_rng(seed)
    found = [
        minimize(
            _with_gradient(loss),
            generator.normal(size=PAIR_NUMBERS + count) * 0.5,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-8},
        )
        for _ in range(starts)
    ]
    best = min(found, key=lambda result: result.fun)
    weights = np.zeros((n, n + 1))
    weights[free.numpy()] = best.x[PAIR_NUMBERS:]
    return float(best.fun), weights


@dataclass(frozen=True)
class Training:
    """How the structured two-layer models are trained.

    Attributes:
        n, d, p: demonstrations, dimensions, keep rate.
        steps, batch: steps of Adam with a falling rate, and fresh prompts in each.
        models: models trained side by side from starts of their own.
    """

    n: int
    d: int
    p: float
    steps: int
    batch: int
    models: int


def train(layout: Format, arrows: bool, setting: Training, seed: int) -> Weights:
    """Weights trained on dropped prompts, their leading dimension the models.

    Nothing is fixed inside the structured set, so the first layer may descend too. Without
    `arrows`, Λ4 is held at zero.
    """
    structure, n, d = Structure(layout, 2), setting.n, setting.d
    generator = torch.Generator().manual_seed(seed)
    shape = setting.models, structure.size
    numbers = 0.1 * torch.randn(*shape, generator=generator, dtype=torch.float64)
    numbers[:, :2] += 1  # A and B of the first layer
    shape_mixing = setting.models, 2, n + 1, n + 1
    mixing = 0.3 * torch.randn(*shape_mixing, generator=generator, dtype=torch.float64) * arrows
    learned = [numbers.requires_grad_(), *([mixing.requires_grad_()] if arrows else [])]
    optimizer = torch.optim.Adam(learned, lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, setting.steps)
    for _ in range(setting.steps):
        optimizer.zero_grad()
        pairs = draw_pairs(generator, n, d, setting.batch)
        kept = draw_masks(generator, setting.p, 2, setting.batch, 3 * (n + 1))
        losses(structure.weights(numbers, n, d, mixing), layout, pairs, kept).mean(
            -1
        ).sum().backward()
        for tensor in learned:
            _clip_each(tensor)
        optimizer.step()
        schedule.step()
    return structure.weights(numbers.detach(), n, d, mixing.detach())


def losses(weights: Weights, layout: Format, pairs: Pairs, kept: Tensor) -> Tensor:
    """‖TF + W x‖² / d of dropped prompts averaged over W, shape (*batch, prompts).

    Structured weights act on the lower half by multiples of the identity, so the answer is W w, w
    the answer at W = I, and E‖W (w + x)‖² = d ‖w + x‖². `kept` has the masks of triplet prompts,
    shape (2, prompts, 3(n + 1)); pairwise ones take those of x and y, so that layouts compare
    prompt by prompt.
    """
    d, columns = pairs.inputs.shape[-2:]
    unit = Pairs(torch.eye(d, dtype=torch.float64).expand_as(pairs.maps), pairs.inputs)
    if layout == "pairwise":
        kept = kept.unflatten(-1, (columns, 3))[..., [0, 2]].flatten(-2)
    last = dropped_forward(weights, tokens(unit, layout), columns - 1, kept)
    return (prediction(last) + unit.answers).square().sum(-1)


def _clip_each(tensor: Tensor) -> None:
    """Gradient norm at most 1 for each model: the loss has heavy tails."""
    assert tensor.grad is not None
    norm = tensor.grad.flatten(1).norm(dim=1).view(-1, *[1] * (tensor.dim() - 1))
    tensor.grad.mul_(torch.clamp(1 / (norm + 1e-12), max=1))


def _with_gradient(
    loss: Callable[[Tensor], Tensor],
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    def value(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        leaf = torch.from_numpy(numbers).requires_grad_()
        level = loss(leaf)
        (slope,) = torch.autograd.grad(level, leaf)
        return level.item(), slope.numpy()

    return value
