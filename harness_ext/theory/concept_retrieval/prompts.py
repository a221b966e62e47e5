"""Prompts of Bu et al. 2025: demonstrations, question sentences, and both together.

A token is sum_k (c a_k + y_k b_k) + noise over its concepts, c = 0.1 for words and 1 for labels.
Every word and label carries the prompt's co-task concept and one distractor of its own, drawn from
the other concepts; both tokens of a pair share the co-task concept's sign, and only that. The paper
gives neither the distractors' number nor the noise; these are this check's choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from harness_ext.theory.concept_retrieval.concepts import WORD, Concepts


@dataclass(frozen=True)
class Prompts:
    """A batch of prompts that end in a query word.

    Attributes:
        tokens: shape (batch, length, d); the last is the query.
        concept: index of the co-task concept, shape (batch,).
        sign: the query's y for that concept, ±1, shape (batch,).
    """

    tokens: Tensor
    concept: Tensor
    sign: Tensor

    @property
    def answers(self) -> Tensor:
        """Rows of the dictionary that hold a_k + y b_k, shape (batch,)."""
        return 2 * self.concept + (self.sign < 0).long()


def demonstration_prompts(
    concepts: Concepts,
    pairs: int,
    count: int,
    noise: float,
    generator: torch.Generator,
    *,
    shared_sign: bool = False,
    related: bool = True,
) -> Prompts:
    """ICL prompts: word, label, word, label, …, query; length 2 · pairs + 1.

    `shared_sign` gives the first demonstration the query's sign in every prompt. With `related`
    False each demonstration shows a concept of its own, which need not be the query's.
    """
    concept = torch.randint(concepts.count, (count,), generator=generator)
    sign = _signs((count, 1), generator)
    shown = concept[:, None].expand(count, pairs)
    if not related:
        shown = torch.randint(concepts.count, (count, pairs), generator=generator)
    signs = _signs((count, pairs), generator)
    if shared_sign:
        signs[:, :1] = sign
    shown = torch.cat([shown.repeat_interleave(2, dim=1), concept[:, None]], dim=1)
    signs = torch.cat([signs.repeat_interleave(2, dim=1), sign], dim=1)
    present = one_hot(shown, concepts.count).float()
    other, other_sign = _distractors(shown, concepts.count, generator)
    tokens = _tokens(
        concepts,
        (present + other) * _coefficients(2 * pairs + 1),
        present * signs[..., None] + other * other_sign,
        noise,
        generator,
    )
    return Prompts(tokens, concept, sign[:, 0])


def questions(
    concepts: Concepts,
    length: int,
    count: int,
    noise: float,
    generator: torch.Generator,
    *,
    shuffled: bool = False,
) -> Prompts:
    """QA sentences: `length` − 1 common tokens and one a_k in random order, then the query word.

    No b_k occurs before the query. With `shuffled`, the query and its answer take a concept of
    their own, independent of the sentence's.
    """
    concept = torch.randint(concepts.count, (count,), generator=generator)
    prefix = _question(concepts, concept, length, noise, generator)
    if shuffled:
        concept = torch.randint(concepts.count, (count,), generator=generator)
    sign = _signs((count, 1), generator)
    present = one_hot(concept[:, None], concepts.count).float()
    other, other_sign = _distractors(concept[:, None], concepts.count, generator)
    query = _tokens(
        concepts,
        WORD * (present + other),
        present * sign[..., None] + other * other_sign,
        noise,
        generator,
    )
    return Prompts(torch.cat([prefix, query], dim=1), concept, sign[:, 0])


def questions_with_demonstrations(
    concepts: Concepts,
    length: int,
    pairs: int,
    count: int,
    noise: float,
    generator: torch.Generator,
) -> Prompts:
    """QA-ICL prompts: the prefix of a QA sentence, then demonstrations and query of its concept."""
    rest = demonstration_prompts(concepts, pairs, count, noise, generator)
    prefix = _question(concepts, rest.concept, length, noise, generator)
    return Prompts(torch.cat([prefix, rest.tokens], dim=1), rest.concept, rest.sign)


def mixtures(
    concepts: Concepts, parts: int, pairs: int, count: int, noise: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Prompts in which every token carries `parts` co-task concepts, with weights w_k on a_k.

    Returns the tokens, shape (count, 2 · pairs + 1, d), and the weights, shape (count, K): zero
    outside the prompt's concepts, of norm 1. Each token also carries one distractor.
    """
    order = torch.rand(count, concepts.count, generator=generator).argsort(dim=1)
    weights = (0.1 + torch.rand(count, concepts.count, generator=generator)) * (order < parts)
    weights = weights / weights.norm(dim=1, keepdim=True)
    present = (weights > 0).float()[:, None]
    signs = torch.cat(
        [
            _signs((count, pairs, concepts.count), generator).repeat_interleave(2, dim=1),
            _signs((count, 1, concepts.count), generator),
        ],
        dim=1,
    )
    length = 2 * pairs + 1
    draw = torch.rand(count, length, concepts.count, generator=generator)
    other = one_hot((draw * (1 - present)).argmax(dim=-1), concepts.count).float()
    tokens = _tokens(
        concepts,
        (weights[:, None] + other) * _coefficients(length),
        present * signs + other * _signs((count, length, 1), generator),
        noise,
        generator,
    )
    return tokens, weights


def _question(
    concepts: Concepts, concept: Tensor, length: int, noise: float, generator: torch.Generator
) -> Tensor:
    """Common tokens with a_k at a random place, shape (count, length, d)."""
    count = len(concept)
    chosen = torch.randint(len(concepts.common), (count, length), generator=generator)
    tokens = concepts.common[chosen]
    place = torch.randint(length, (count,), generator=generator)
    tokens[torch.arange(count), place] = concepts.high[concept]
    return tokens + noise * torch.randn(tokens.shape, generator=generator)


def _tokens(
    concepts: Concepts, high: Tensor, low: Tensor, noise: float, generator: torch.Generator
) -> Tensor:
    """Tokens with coefficients `high` on a_k and `low` on b_k, both (count, length, K)."""
    vectors = torch.cat([concepts.high, concepts.low])
    coefficients = torch.cat([high, low], dim=-1).flatten(0, 1)
    tokens = torch.randn(len(coefficients), concepts.dimension, generator=generator)
    return tokens.addmm_(coefficients, vectors, beta=noise).unflatten(0, high.shape[:2])


def _coefficients(length: int) -> Tensor:
    """0.1 for words and 1 for labels in turn, beginning and ending with a word: (length, 1)."""
    coefficients = torch.ones(length, 1)
    coefficients[0::2] = WORD
    return coefficients


def _distractors(shown: Tensor, concepts: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One concept other than the shown one for each token, one-hot, and its signs.

    `shown` has shape (count, length); the results have (count, length, K) and (count, length, 1).
    """
    step = torch.randint(1, concepts, shown.shape, generator=generator)
    return (
        one_hot((shown + step) % concepts, concepts).float(),
        _signs((*shown.shape, 1), generator),
    )


def _signs(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return 2.0 * torch.randint(2, shape, generator=generator) - 1.0
