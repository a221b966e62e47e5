"""One, several or no task vectors in the linear model, on tasks that swap a pair.

A task is a reflection W that swaps the x and y of a pair. Its demonstrations are multiples of x and
of y in turn (one pair's bijection), or isotropic.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.model import Weights, prediction, update
from harness_ext.theory.linear_attention.prompts import Pairs, tokens
from harness_ext.theory.rank_one.algebra import cosine_bound
from harness_ext.theory.weight_orthogonality import HALF, optimal_weights

TASKS = ("both ways", "one way", "isotropic")
ANSWERS = ("ICL", "one vector", "two vectors", "all vectors")


def swap(x: Tensor, y: Tensor) -> Tensor:
    """The reflection that swaps unit vectors of shape (*batch, d): shape (*batch, d, d), W² = I.

    Identity where x = y.
    """
    gap = x - y
    size = gap.square().sum(-1)[..., None, None]
    outer = gap[..., :, None] * gap[..., None, :]
    eye = torch.eye(x.shape[-1], dtype=x.dtype).expand_as(outer)
    return torch.where(size > 1e-20, eye - 2 * outer / size.clamp(min=1e-20), eye)


def answer_cosines(
    angle: float, d: int, n: int, prompts: int, task: str, seed: int, a: float = HALF
) -> dict[str, dict[str, float]]:
    """Cosines of the linear model's answers with the right ones: mean, and the most over the bound.

    `both ways` demonstrates s x → s y and s y → s x in turn, s standard normal, and asks for x and
    for y; `one way` only the first; `isotropic` has standard normal inputs, the swap of x and y (at
    180° the negation) applied to them. The model is of least risk among two layers with C = 0 in
    the first, pairs carrying the share `a` of the answer and arrows the rest. Raises UsageError for
    n below 2: both ways must be shown.
    """
    if n < 2:
        raise UsageError(f"n is {n}; showing a map and its inverse takes at least 2 demonstrations")
    generator = torch.Generator().manual_seed(seed)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    basis, _ = torch.linalg.qr(gaussian(prompts, d, 2))
    radians = torch.deg2rad(torch.tensor(float(angle), dtype=torch.float64))
    x = basis[..., 0]
    y = basis @ torch.stack([radians.cos(), radians.sin()])
    maps = swap(x, y)
    if task == "isotropic":
        if angle == 180:
            maps = -torch.eye(d, dtype=torch.float64).expand_as(maps)
        inputs = gaussian(prompts, d, n)
        queries = [gaussian(prompts, d)]
    else:
        turns = torch.arange(n) % 2 == 1 if task == "both ways" else torch.zeros(n).bool()
        inputs = torch.where(turns, y[..., None], x[..., None]) * gaussian(prompts, 1, n)
        queries = [x, y] if task == "both ways" else [x]
    weights = optimal_weights(n, d, seed, a)
    vectors = first_arrows(weights, maps, inputs)
    found: dict[str, list[Tensor]] = {name: [] for name in ANSWERS}
    for query in queries:
        pairs = Pairs(maps, torch.cat([inputs, query[..., None]], -1))
        state = tokens(pairs, "triplet")
        answers = {
            "ICL": continued(weights, state, None),
            "one vector": injected(weights, query, vectors[..., -1:]),
            "two vectors": injected(weights, query, vectors[..., -2:]),
            "all vectors": injected(weights, query, vectors),
        }
        for name, answer in answers.items():
            found[name].append(torch.cosine_similarity(-answer, pairs.answers, dim=-1, eps=1e-300))
    both = {name: torch.stack(own).mean(0) for name, own in found.items()}
    return {
        name: {"mean": own.mean().item(), "over": (own - cosine_bound(angle)).max().item()}
        for name, own in both.items()
    }


def first_arrows(weights: Weights, maps: Tensor, inputs: Tensor) -> Tensor:
    """The arrows after the first layer, query zeroed: shape (prompts, 2d, n + 1)."""
    pairs = Pairs(maps, torch.cat([inputs, torch.zeros_like(inputs[..., :1])], -1))
    state = tokens(pairs, "triplet")
    return (state + update(weights, 0, state, inputs.shape[-1]))[..., 1::3]


def injected(weights: Weights, query: Tensor, vectors: Tensor) -> Tensor:
    """Answers (prompts, d) without demonstrations, vectors put into the last arrows."""
    n = weights.position.shape[-1] // 3 - 1
    inputs = torch.zeros(*query.shape, n + 1, dtype=query.dtype)
    inputs[..., -1] = query
    nothing = torch.zeros(*query.shape, query.shape[-1], dtype=query.dtype)
    return continued(weights, tokens(Pairs(nothing, inputs), "triplet"), vectors)


def continued(weights: Weights, state: Tensor, vectors: Tensor | None) -> Tensor:
    """Answers (prompts, d) of both layers, the last arrows replaced between them."""
    n = weights.position.shape[-1] // 3 - 1
    state = state + update(weights, 0, state, n)
    if vectors is not None:
        count = vectors.shape[-1]
        state = state.clone()
        state[..., 1::3][..., n + 1 - count :] = vectors
    return prediction(state + update(weights, 1, state, n))
