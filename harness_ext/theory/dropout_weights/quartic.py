"""How much task vectors cost under token dropout: a quartic form in their weights.

Setting (Dong et al. 2026, section 3 and appendix D.6; arXiv 2506.09048): two layers, C = 0 in the
first, every token kept as a key with probability p, in each layer anew. Arrow j then holds
Σ_i M_ij [ξ_i x_i; υ_i y_i], ξ_i and υ_i telling whether the first layer kept the tokens of x_i and
y_i. With κ_j telling whether the second layer keeps arrow j, the arrows contribute to the answer

    W X N Xᵀ x,   N = diag(υ) M diag(κ) Mᵀ diag(ξ),

up to a scale that does not depend on M. For X with standard normal columns (Wick's theorem)

    E‖W X N Xᵀ x‖² = d² (d‖N‖² + tr N² + (tr N)²).

For 0/1 variables a pair of equal indices replaces p² by p, so every sum over masks splits into the
full sum and the sum over equal indices:

    E‖N‖²    = p⁴ G + (p³ − p⁴) K
    E tr N²  = p⁶ G + (p⁵ − p⁶) K + (p⁴ − p⁶) R + (p² − p⁴)(p − p²) E
    E(tr N)² = p⁶ S + (p⁵ − p⁶) K + (p⁴ − p⁶) R + (p² − p⁴)(p − p²) E

with G = ‖MMᵀ‖², K = Σ_j ‖M_:j‖⁴, R = Σ_i ‖M_i:‖⁴, E = Σ_ij M_ij⁴, S = ‖M‖⁴. Summed up:

    E: 2(p³ − p⁴ − p⁵ + p⁶)   R: 2(p⁴ − p⁶)   K: d(p³ − p⁴) + 2(p⁵ − p⁶)   G: d p⁴ + p⁶   S: p⁶.

What the rest of the model adds (pairs concatenated by the first layer, the target) meets N only
through E tr N and E⟨P, N⟩ with P diagonal and alike for all pairs: functions of ‖M‖ alone. So at
fixed ‖M‖ the best M minimises this form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from harness_ext.errors import UsageError
from harness_ext.theory.dropout_weights.tokens import draw_masks, dropped_forward
from harness_ext.theory.linear_attention.model import Weights, prediction
from harness_ext.theory.linear_attention.prompts import Pairs, draw_pairs, tokens

Array = NDArray[np.float64]

MOST_BITS = 18
"""Masks are enumerated up to this many tokens: 2¹⁸ products of small matrices take seconds."""


@dataclass(frozen=True)
class Coefficients:
    """Coefficients of E, R, K, G and S of the module's docstring."""

    entries: float
    rows: float
    columns: float
    gram: float
    total: float


def derived(p: float, d: int) -> Coefficients:
    """The coefficients of the module's docstring."""
    _check(p, d)
    return Coefficients(
        entries=2 * (p**3 - p**4 - p**5 + p**6),
        rows=2 * (p**4 - p**6),
        columns=d * (p**3 - p**4) + 2 * (p**5 - p**6),
        gram=d * p**4 + p**6,
        total=p**6,
    )


def printed(p: float, d: int) -> Coefficients:
    """The coefficients c3, c4, c5 and c2 printed in appendix D.6, with p⁶ for the constant.

    They differ from the derived ones by two slips: the factor d stands with tr N² instead of ‖N‖²,
    and p³ − p⁴ with the rows instead of the columns.
    """
    _check(p, d)
    return Coefficients(
        entries=(1 + d) * (p**3 - p**4 - p**5 + p**6),
        rows=(1 + d) * (p**4 - p**6) + p**3 - p**4,
        columns=(1 + d) * (p**5 - p**6),
        gram=p**4 + d * p**6,
        total=p**6,
    )


def quartic(weights: Array, c: Coefficients) -> float:
    """The form at M, shape (n, m), in units of d²: d‖N‖² + tr N² + (tr N)² on average."""
    squares = weights**2
    return float(
        c.entries * (squares**2).sum()
        + c.rows * (squares.sum(1) ** 2).sum()
        + c.columns * (squares.sum(0) ** 2).sum()
        + c.gram * ((weights @ weights.T) ** 2).sum()
        + c.total * squares.sum() ** 2
    )


def gradient(weights: Array, c: Coefficients) -> Array:
    """The form's derivatives by the entries of M, shape (n, m)."""
    squares = weights**2
    rows, columns = squares.sum(1, keepdims=True), squares.sum(0, keepdims=True)
    scaled = c.entries * squares + c.rows * rows + c.columns * columns + c.total * squares.sum()
    return np.asarray(4 * (scaled * weights + c.gram * weights @ weights.T @ weights))


def enumerated(weights: Array, p: float, d: int) -> float:
    """The same average from all 2^(2n + m) masks, each with its probability: no algebra on p.

    Raises UsageError beyond 18 tokens.
    """
    _check(p, d)
    n, m = weights.shape
    bits = 2 * n + m
    if bits > MOST_BITS:
        raise UsageError(
            f"n = {n} and {m} arrows have 2^{bits} masks; at most 2^{MOST_BITS} are enumerated: "
            "choose a smaller n"
        )
    masks = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
    probability = p ** masks.sum(1) * (1 - p) ** (bits - masks.sum(1))
    ups, xis, kappas = masks[:, :n], masks[:, n : 2 * n], masks[:, 2 * n :]
    product = (weights * kappas[:, None, :]) @ weights.T
    matrix = ups[:, :, None] * product * xis[:, None, :]
    trace = np.trace(matrix, axis1=1, axis2=2)
    norm = (matrix**2).sum((1, 2))
    square = (matrix * matrix.transpose(0, 2, 1)).sum((1, 2))
    return float(probability @ (d * norm + square + trace**2))


def simulated(
    weights: Array, p: float, d: int, prompts: int, seed: int, block: int = 10_000
) -> tuple[float, float]:
    """The same average from the model itself on random prompts, with its standard error.

    The triplet model runs token by token; its first layer writes only what M says into the arrows
    and x into the last token, so that the answer is what the arrows contribute. Samples X, x and
    the masks of both layers; W averages out, E‖W v‖² = d‖v‖², so the prompts have W = I.
    """
    _check(p, d)
    n = weights.shape[0]
    model = _arrows_only(torch.from_numpy(weights), d)
    generator = torch.Generator().manual_seed(seed)
    sums = np.zeros(2)
    for start in range(0, prompts, block):
        count = min(block, prompts - start)
        inputs = draw_pairs(generator, n, d, count).inputs
        pairs = Pairs(torch.eye(d, dtype=torch.float64).expand(count, d, d), inputs)
        kept = draw_masks(generator, p, 2, count, 3 * (n + 1))
        last = dropped_forward(model, tokens(pairs, "triplet"), n, kept)
        # The last token holds x with probability p, and the answer is 0 otherwise.
        values = prediction(last).square().sum(-1) / (d * p)
        sums += [float(values.sum()), float(values.square().sum())]
    mean, square = sums / prompts
    return float(mean), float(np.sqrt((square - mean**2) / prompts))


def _arrows_only(weights: torch.Tensor, d: int) -> Weights:
    n = weights.shape[0]
    size = 3 * (n + 1)
    position = torch.zeros(2, size, size, dtype=torch.float64)
    for first in (0, 2):  # x and y of a demonstration, to every arrow
        position[0, first : 3 * n : 3, 1::3] = weights
    position[0, 3 * n, -1] = 1
    eye = torch.eye(d, dtype=torch.float64)
    # n undoes the layers' 1/n.
    values = n * eye.expand(2, d, d)
    return Weights(values, values, torch.stack([0 * eye, eye]), position)


def _check(p: float, d: int) -> None:
    if not 0 < p <= 1:
        raise UsageError(f"the keep rate is {p}; it must lie above 0 and at most at 1")
    if d < 1:
        raise UsageError(f"d is {d}; it must be at least 1")
