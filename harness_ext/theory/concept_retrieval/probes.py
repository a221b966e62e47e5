"""What is measured in a trained model: projections, directions of h0, test errors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from harness_ext.theory.concept_retrieval.concepts import Concepts, Placement, unseen_concepts
from harness_ext.theory.concept_retrieval.model import (
    Architecture,
    Weights,
    hidden_states,
    stream,
    task_vectors,
)
from harness_ext.theory.concept_retrieval.prompts import (
    Prompts,
    demonstration_prompts,
    mixtures,
)
from harness_ext.theory.concept_retrieval.training import Setting

PAIRS = (1, 2, 4, 8, 16, 32)
"""Demonstrations in a test prompt."""

NOISES = (0.04, 0.08, 0.12, 0.16, 0.2)
"""Standard deviation per coordinate of the noise of test tokens."""

PLACEMENTS: tuple[Placement, ...] = ("cone", "signed", "outside")

Figures = dict[str, float]


def projections(weights: Weights, concepts: Concepts) -> Mapping[str, Tensor]:
    """Projections of W_V and W_K^T W_Q on the concepts, each of shape (models,).

    Each is a mean over k, of absolute values where |·| stands: b_k^T W_V b_k takes either sign,
    so its plain mean hides it.

    - value a: a_k^T W_V a_k; value b: |b_k^T W_V b_k|; value b signed: its plain mean
    - value a to b: |b_k^T W_V a_k|
    - attention a: a_k^T W_K^T W_Q a_k; attention b: |b_k^T W_K^T W_Q b_k|
    - attention other a: a_j^T W_K^T W_Q a_k for j other than k
    """
    high, low = concepts.high, concepts.low
    value, attention = weights.value, weights.attention
    attention_high = high @ attention @ high.mT
    same = _diagonal(attention_high)
    others = attention_high.sum(dim=(1, 2)) - same.sum(dim=1)
    value_low = _diagonal(low @ value @ low.mT)
    return {
        "value a": _diagonal(high @ value @ high.mT).mean(dim=1),
        "value b": value_low.abs().mean(dim=1),
        "value b signed": value_low.mean(dim=1),
        "value a to b": _diagonal(low @ value @ high.mT).abs().mean(dim=1),
        "attention a": same.mean(dim=1),
        "attention other a": others / (concepts.count * (concepts.count - 1)),
        "attention b": _diagonal(low @ attention @ low.mT).abs().mean(dim=1),
    }


def error(
    weights: Weights, architecture: Architecture, prompts: Prompts, dictionary: Tensor
) -> float:
    """Share of prompts whose answer is not the likeliest token; for a batch of one model."""
    tokens = prompts.tokens[None]
    states = hidden_states(task_vectors(weights, tokens), tokens[:, :, -1], architecture)
    return _error(states[0], prompts, dictionary)


def error_without_query(
    weights: Weights, architecture: Architecture, prompts: Prompts, dictionary: Tensor
) -> float:
    """The same where h0 is read from the demonstrations alone and the query is added to it."""
    tokens = prompts.tokens[None]
    states = hidden_states(task_vectors(weights, tokens[:, :, :-1]), tokens[:, :, -1], architecture)
    return _error(states[0], prompts, dictionary)


def oracle_error(prompts: Prompts, concepts: Concepts, dictionary: Tensor) -> float:
    """The error of a model whose h0 is a_k exactly: what the query's own noise leaves."""
    states = hidden_states(concepts.high[prompts.concept], prompts.tokens[:, -1], Architecture())
    return _error(states, prompts, dictionary)


def cosines(weights: Weights, prompts: Prompts, concepts: Concepts) -> Figures:
    """Where h0 points, means over prompts: on a_k*, on ±b_k*, and on the largest other direction.

    Other directions are all a_k, b_k and common tokens but a_k*.
    """
    h0 = _unit(task_vectors(weights, prompts.tokens[None])[0])
    own = (h0 * concepts.high[prompts.concept]).sum(dim=-1)
    low = (h0 * concepts.low[prompts.concept]).sum(dim=-1)
    every = (h0 @ torch.cat([concepts.high, concepts.low, concepts.common]).mT).abs()
    every[torch.arange(len(every)), prompts.concept] = 0
    return {
        "cos a": own.mean().item(),
        "cos b": low.abs().mean().item(),
        "cos other": every.amax(dim=-1).mean().item(),
    }


def standard_probes(
    weights: Weights, architecture: Architecture, setting: Setting, seed: int, count: int
) -> Figures:
    """Errors and directions of h0 on ICL prompts of trained concepts, `count` prompts each."""
    concepts, generator = setting.vectors(), stream(seed, "test")
    dictionary = concepts.dictionary()
    figures: Figures = {}
    for pairs in PAIRS:
        prompts = demonstration_prompts(concepts, pairs, count, setting.noise, generator)
        figures[f"error, {pairs} pairs"] = error(weights, architecture, prompts, dictionary)
        figures[f"error without query, {pairs} pairs"] = error_without_query(
            weights, architecture, prompts, dictionary
        )
        for name, cosine in cosines(weights, prompts, concepts).items():
            figures[f"{name}, {pairs} pairs"] = cosine
    return figures


def generalisation_probes(
    weights: Weights, architecture: Architecture, setting: Setting, seed: int, count: int
) -> Figures:
    """Unseen concepts, mixtures of concepts, and noise, `count` prompts each."""
    concepts, generator = setting.vectors(), stream(seed, "generalisation")
    figures: Figures = {}
    for placement in PLACEMENTS:
        figures |= _unseen(weights, architecture, setting, placement, generator, count)
    figures |= _mixture(weights, concepts, setting, generator, count)
    dictionary = concepts.dictionary()
    for noise in NOISES:
        for pairs in PAIRS:
            prompts = demonstration_prompts(concepts, pairs, count, noise, generator)
            figures[f"error, {pairs} pairs, noise {noise}"] = error(
                weights, architecture, prompts, dictionary
            )
        figures[f"oracle error, noise {noise}"] = oracle_error(prompts, concepts, dictionary)
        for pairs in (PAIRS[0], PAIRS[-1]):
            prompts = demonstration_prompts(concepts, pairs, count, noise, generator, related=False)
            figures[f"error, {pairs} unrelated pairs, noise {noise}"] = error(
                weights, architecture, prompts, dictionary
            )
    return figures


def _unseen(
    weights: Weights,
    architecture: Architecture,
    setting: Setting,
    placement: Placement,
    generator: torch.Generator,
    count: int,
) -> Figures:
    """Errors on concepts never trained; the dictionary holds them beside the trained ones."""
    trained = setting.vectors()
    unseen = unseen_concepts(trained, placement, generator)
    prompts = demonstration_prompts(unseen, setting.pairs, count, setting.noise, generator)
    dictionary = torch.cat([unseen.dictionary(), trained.dictionary()])
    return {
        f"unseen error, {placement}": error(weights, architecture, prompts, dictionary),
        f"unseen oracle error, {placement}": oracle_error(prompts, unseen, dictionary),
        f"unseen cos a, {placement}": cosines(weights, prompts, unseen)["cos a"],
    }


def _mixture(
    weights: Weights,
    concepts: Concepts,
    setting: Setting,
    generator: torch.Generator,
    count: int,
) -> Figures:
    """How well h0 is sum_k w_k a_k where every token carries three co-task concepts, 16 pairs.

    The correlation is over the co-task concepts of a prompt, each prompt's mean taken off;
    exchanged weights are the same w_k in another order. The single a_k has the largest weight.
    """
    parts = min(3, concepts.count - 1)
    tokens, weight = mixtures(concepts, parts, 16, count, setting.noise, generator)
    h0 = _unit(task_vectors(weights, tokens[None])[0]) @ concepts.high.mT
    rows = weight.topk(parts, dim=1).indices
    given, found = weight.gather(1, rows), h0.gather(1, rows)
    return {
        "mixture cosine": (h0 * weight).sum(dim=-1).mean().item(),
        "mixture cosine, single": found[:, 0].mean().item(),
        "mixture correlation": _correlation(given, found),
        "mixture correlation, exchanged": _correlation(given.roll(1, dims=1), found),
    }


def _correlation(given: Tensor, found: Tensor) -> float:
    """Correlation within prompts, of two (batch, parts) tables."""
    x = given - given.mean(dim=1, keepdim=True)
    y = found - found.mean(dim=1, keepdim=True)
    return ((x * y).sum() / (x.norm() * y.norm())).item()


def _error(states: Tensor, prompts: Prompts, dictionary: Tensor) -> float:
    likeliest = (states @ dictionary.mT).argmax(dim=-1)
    return (likeliest != prompts.answers).float().mean().item()


def _diagonal(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=1, dim2=2)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)
