"""Gradient descent on fresh batches, all seeds of a recipe as one batched run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from harness_ext.errors import UsageError
from harness_ext.theory.concept_retrieval.concepts import Concepts, trained_concepts
from harness_ext.theory.concept_retrieval.model import (
    Architecture,
    Weights,
    hidden_states,
    initial_weights,
    stream,
    task_vectors,
)
from harness_ext.theory.concept_retrieval.prompts import (
    Prompts,
    demonstration_prompts,
    questions,
    questions_with_demonstrations,
)


@dataclass(frozen=True)
class Setting:
    """Sizes and training parameters; the paper gives none, these are this check's choice.

    Attributes:
        concepts: K. common: K'. dimension: d.
        noise: standard deviation of each coordinate of a token's noise.
        pairs: demonstrations of a training prompt, where the recipe does not say otherwise.
        length: tokens before the query in a QA sentence, as many as 4 pairs have.
        batch: fresh prompts per step. steps: gradient steps. rate: learning rate.
        decay: the loss holds decay / 2 times the squared weights.
        spread: standard deviation of the initial weights.
    """

    concepts: int = 10
    common: int = 100
    dimension: int = 160
    noise: float = 0.08
    pairs: int = 4
    length: int = 8
    batch: int = 128
    steps: int = 400
    rate: float = 4.0
    decay: float = 1e-3
    spread: float = 0.02

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise UsageError(f"pairs is {self.pairs}; a prompt needs at least 1 demonstration")

    def vectors(self) -> Concepts:
        """The trained concepts. Raises UsageError where they do not fit the dimensions."""
        return trained_concepts(self.concepts, self.common, self.dimension)


FULL = Architecture()

Draw = Callable[[Setting, Concepts, torch.Generator], Prompts]


@dataclass(frozen=True)
class Recipe:
    """What a model is trained on, and which parts it has."""

    title: str
    draw: Draw
    architecture: Architecture = FULL


def _questions(setting: Setting, concepts: Concepts, generator: torch.Generator) -> Prompts:
    return questions(concepts, setting.length, setting.batch, setting.noise, generator)


def _shuffled(setting: Setting, concepts: Concepts, generator: torch.Generator) -> Prompts:
    return questions(
        concepts, setting.length, setting.batch, setting.noise, generator, shuffled=True
    )


def _demonstrations(setting: Setting, concepts: Concepts, generator: torch.Generator) -> Prompts:
    return demonstration_prompts(concepts, setting.pairs, setting.batch, setting.noise, generator)


def _two_pairs(setting: Setting, concepts: Concepts, generator: torch.Generator) -> Prompts:
    return demonstration_prompts(concepts, 2, setting.batch, setting.noise, generator)


def _two_pairs_shared(setting: Setting, concepts: Concepts, generator: torch.Generator) -> Prompts:
    return demonstration_prompts(
        concepts, 2, setting.batch, setting.noise, generator, shared_sign=True
    )


def _both(setting: Setting, concepts: Concepts, generator: torch.Generator) -> Prompts:
    return questions_with_demonstrations(
        concepts, setting.length, setting.pairs, setting.batch, setting.noise, generator
    )


RECIPES: Mapping[str, Recipe] = {
    "qa": Recipe("QA", _questions),
    "icl": Recipe("ICL, 4 pairs", _demonstrations),
    "icl-2": Recipe("ICL, 2 pairs", _two_pairs),
    "icl-2-shared": Recipe("ICL, 2 pairs, a shared sign", _two_pairs_shared),
    "qa-icl": Recipe("QA-ICL", _both),
    "no-residual": Recipe("QA, no residual stream", _questions, Architecture(residual=False)),
    "no-normalisation": Recipe("QA, no normalisation", _questions, Architecture(normalised=False)),
    "shuffled": Recipe("QA, shuffled answers", _shuffled),
}


def train(
    recipe: Recipe,
    setting: Setting,
    seeds: Sequence[int],
    watch: Callable[[int, Weights], None] = lambda step, weights: None,
) -> Weights:
    """Train one model per seed; `watch` sees the weights before each step and after the last.

    A seed's batches and first weights do not depend on the other seeds.
    """
    concepts = setting.vectors()
    dictionary = concepts.dictionary()
    streams = [stream(seed, "training") for seed in seeds]
    weights = initial_weights(seeds, setting.dimension, setting.spread)
    for step in range(setting.steps):
        watch(step, weights)
        batches = [recipe.draw(setting, concepts, generator) for generator in streams]
        weights = _descend(weights, batches, dictionary, recipe.architecture, setting)
    watch(setting.steps, weights)
    return weights


def loss(
    weights: Weights,
    tokens: Tensor,
    answers: Tensor,
    dictionary: Tensor,
    architecture: Architecture,
    decay: float,
) -> Tensor:
    """Cross-entropy of the answers plus decay / 2 times the squared weights, shape (models,).

    `tokens` is (models, batch, length, d), `answers` (models, batch), `dictionary` (rows, d).
    """
    states = hidden_states(task_vectors(weights, tokens), tokens[:, :, -1], architecture)
    logits = (states @ dictionary.mT).flatten(0, 1)
    entropy = cross_entropy(logits, answers.flatten(), reduction="none").view_as(answers)
    squares = sum(
        matrix.square().sum(dim=(1, 2)) for matrix in (weights.value, weights.key, weights.query)
    )
    return entropy.mean(dim=1) + decay / 2 * squares


def _descend(
    weights: Weights,
    batches: Sequence[Prompts],
    dictionary: Tensor,
    architecture: Architecture,
    setting: Setting,
) -> Weights:
    """One gradient step of every model on its own batch."""
    leaves = [
        matrix.detach().requires_grad_() for matrix in (weights.value, weights.key, weights.query)
    ]
    total = loss(
        Weights(*leaves),
        torch.stack([batch.tokens for batch in batches]),
        torch.stack([batch.answers for batch in batches]),
        dictionary,
        architecture,
        setting.decay,
    ).sum()
    gradients = torch.autograd.grad(total, leaves)
    with torch.no_grad():
        return Weights(
            *(
                leaf - setting.rate * gradient
                for leaf, gradient in zip(leaves, gradients, strict=True)
            )
        )
