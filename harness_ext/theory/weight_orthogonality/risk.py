"""The exact risk of two layers as a function of Λ4, its least points, and models that have it.

Triplet prompts, C = 0 in the first layer. Λ4 has M (n × (n + 1)) for the demonstrations and m below
it for the query. After the first layer a pair's two tokens hold multiples of x_i and y_i, arrow j
holds multiples of Σ_i M_ij x_i + m_j x and of Σ_i M_ij y_i, and the last token one of x. The second
layer answers with

    κ W (X S Xᵀ x + b X M m |x|²),   S = a I + b M Mᵀ,

a and b products of the first layer's numbers, κ of the second's. W, x and the columns of X being
standard normal, the odd powers of X vanish and Wick's theorem gives

    E‖TF + Wx‖²/d = d + 2κ d tr S + κ² d [(d + 1)‖S‖² + (tr S)²] + κ² b² d²(d + 2) |M m|².

It is least, d(d + 1)/(n + d + 1), where κ S = −I/(n + d + 1) and b M m = 0. So M is free where
b = 0, and m may be any vector that M maps to 0, of which there is a line: M has one column more
than rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.model import Weights, forward, prediction
from harness_ext.theory.linear_attention.prompts import draw_pairs, tokens
from harness_ext.theory.linear_attention.structure import Structure

SCALARS = ("A", "B", "xx", "xy", "yx", "yy", "query", "arrow_x", "arrow_y", "scale")
HALF = 0.5


def exact_risk(a: Tensor, b: Tensor, kappa: Tensor, mixing: Tensor, d: int) -> Tensor:
    """The risk of the module's docstring, scalar; `mixing` is Λ4, shape (n + 1, n + 1)."""
    weights, query = mixing[:-1], mixing[-1]
    matrix = a * torch.eye(len(weights), dtype=mixing.dtype) + b * weights @ weights.T
    trace, mapped = matrix.trace(), weights @ query
    return (
        d
        + 2 * kappa * d * trace
        + kappa**2 * d * ((d + 1) * matrix.square().sum() + trace**2)
        + (kappa * b) ** 2 * d**2 * (d + 2) * mapped.square().sum()
    )


def least_risk(n: int, d: int) -> float:
    """d(d + 1)/(n + d + 1), one step of descent."""
    return d * (d + 1) / (n + d + 1)


SEARCHES = ("free", "arrows only", "half arrows")


def search(n: int, d: int, seed: int, kind: str) -> dict[str, Any]:
    """Minimise the exact risk over the first layer's numbers, Λ4 and the answer's scale.

    `free` holds nothing; it tends to leave the arrows unread. `arrows only` holds a = 0, pairs
    being kept apart, and `half arrows` a = 1 and κ at half its best value for S = I. Raises
    UsageError for n below 2, where rows have nothing to be orthogonal to.
    """
    if n < 2:
        raise UsageError(f"n is {n}; orthogonality of demonstrations needs at least 2")
    generator = np.random.default_rng(seed)
    count = len(SCALARS)
    start = generator.normal(size=count + (n + 1) ** 2) / 2
    start[count - 1] = 0

    def parts(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        s = dict(zip(SCALARS, numbers[:count], strict=True))
        # In a pair's x token: (1 + A xx) x and B yx y; in its y token: A xy x and (1 + B yy) y.
        a = (1 + s["A"] * s["xx"]) * s["B"] * s["yx"] + s["A"] * s["xy"] * (1 + s["B"] * s["yy"])
        b = s["A"] * s["arrow_x"] * s["B"] * s["arrow_y"]
        kappa = s["A"] * s["query"] * s["scale"]
        if kind == "arrows only":
            a = torch.zeros_like(a)
        elif kind == "half arrows":
            a, kappa = torch.ones_like(a), torch.full_like(kappa, -HALF / (n + d + 1))
        return a, b, kappa, numbers[count:].view(n + 1, n + 1)

    def loss(numbers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        leaf = torch.from_numpy(numbers).requires_grad_()
        risk = exact_risk(*parts(leaf), d)
        (slope,) = torch.autograd.grad(risk, leaf)
        return risk.item(), slope.numpy()

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-9}
    end = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    a, b, _, mixing = parts(torch.from_numpy(end.x))
    rows, query = mixing[:-1], mixing[-1]
    arrows = b * rows.square().sum()
    return {
        "excess": end.fun - least_risk(n, d),
        "share": (arrows / (a * n + arrows)).abs().item(),
        "printed": printed_distance(mixing),
        "rows": _from_identity(rows @ rows.T),
        "query": ((rows @ query).norm() / (rows.norm() * query.norm())).item(),
        "start": printed_distance(torch.from_numpy(start[count:]).view(n + 1, n + 1)),
        "gram": (mixing @ mixing.T).tolist(),
    }


SAME_FUNCTION = ("unread", "m in the null space", "rotated")
OTHER_FUNCTION = ("skewed", "query read")


def variants(n: int, seed: int) -> dict[str, tuple[float, float, Tensor]]:
    """a, b and Λ4 of models whose S has trace n: as printed, as good, and worse."""
    generator = torch.Generator().manual_seed(seed)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    basis, _ = torch.linalg.qr(gaussian(n + 1, n + 1))
    turned, _ = torch.linalg.qr(gaussian(n + 1, n + 1))
    rows, null = basis[:n], basis[n:]
    zero = torch.zeros_like(null)
    skewed = gaussian(n, n + 1)
    skewed = skewed / skewed.norm() * n**0.5
    return {
        "as printed": (HALF, HALF, torch.cat([rows, zero])),
        "unread": (1.0, 0.0, gaussian(n + 1, n + 1)),
        "m in the null space": (HALF, HALF, torch.cat([rows, null])),
        "rotated": (HALF, HALF, torch.cat([rows @ turned, zero])),
        "skewed": (HALF, HALF, torch.cat([skewed, zero])),
        "query read": (HALF, HALF, torch.cat([rows, rows[:1]])),
    }


def compare_variants(n: int, d: int, seed: int, prompts: int = 200) -> dict[str, dict[str, float]]:
    """Exact risk above the least, distance from the printed form, and answers against `as printed`.

    κ is the best for S = I; answers come from the whole model, token by token.
    """
    kappa = -1 / (n + d + 1)
    pairs = draw_pairs(torch.Generator().manual_seed(seed), n, d, prompts)
    state = tokens(pairs, "triplet")
    figures, reference = {}, None
    for name, (a, b, mixing) in variants(n, seed).items():
        numbers = model_numbers(a, b, kappa, n)
        weights = Structure("triplet", 2).weights(numbers, n, d, mixing)
        answers = prediction(forward(weights, state, n))
        reference = answers if reference is None else reference
        scalars = torch.tensor([a, b, kappa], dtype=torch.float64)
        risk = exact_risk(scalars[0], scalars[1], scalars[2], mixing, d)
        figures[name] = {
            "excess": risk.item() - least_risk(n, d),
            "printed": printed_distance(mixing),
            "answers": ((answers - reference).abs().max() / reference.abs().max()).item(),
        }
    return figures


def model_numbers(a: float, b: float, kappa: float, n: int) -> Tensor:
    """Structured numbers of a two-layer triplet model with these a, b and κ, shape (24,)."""
    structure = Structure("triplet", 2)
    numbers = torch.zeros(2, structure.per_layer, dtype=torch.float64)
    numbers[0, :2] = 1  # A, B
    numbers[0, 5] = a  # Λ1, y to x's token
    numbers[0, 8] = 1  # Λ2, x to the last token
    numbers[0, 10:12] = torch.tensor([1.0, b])  # Λ5, x and y to arrows
    numbers[1, 1:3] = torch.tensor([1.0, kappa * n])  # B, C
    return numbers.flatten()


def optimal_weights(n: int, d: int, seed: int, a: float = HALF) -> Weights:
    """A two-layer triplet model of least risk among those with C = 0 in the first layer.

    M is random orthonormal and m = 0, so that every a with b = 1 − a has this risk: pairs carry
    the share a of the answer, and arrows the rest.
    """
    mixing = variants(n, seed)["as printed"][-1]
    numbers = model_numbers(a, 1 - a, -1 / (n + d + 1), n)
    return Structure("triplet", 2).weights(numbers, n, d, mixing)


def printed_distance(mixing: Tensor) -> float:
    """‖Λ4Λ4ᵀ − λ diag(I_n, 0)‖ / ‖Λ4Λ4ᵀ‖ with the best λ, for Λ4 of shape (n + 1, n + 1)."""
    gram = mixing @ mixing.T
    target = torch.eye(len(gram), dtype=gram.dtype)
    target[-1, -1] = 0
    return ((gram - gram.diagonal()[:-1].mean() * target).norm() / gram.norm()).item()


def _from_identity(gram: Tensor) -> float:
    eye = torch.eye(len(gram), dtype=gram.dtype)
    return ((gram - gram.diagonal().mean() * eye).norm() / gram.norm()).item()
