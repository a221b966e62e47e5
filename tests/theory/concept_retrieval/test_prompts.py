"""What prompts hold, read off without noise."""

from __future__ import annotations

import torch

from harness_ext.theory.concept_retrieval.concepts import trained_concepts
from harness_ext.theory.concept_retrieval.model import stream
from harness_ext.theory.concept_retrieval.prompts import (
    demonstration_prompts,
    mixtures,
    questions,
    questions_with_demonstrations,
)

CONCEPTS = trained_concepts(5, 7, 20)
ROWS = torch.arange(50)


def _coefficients(tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return tokens @ CONCEPTS.high.mT, tokens @ CONCEPTS.low.mT


def test_every_token_carries_the_co_task_concept_and_one_distractor() -> None:
    prompts = demonstration_prompts(CONCEPTS, 3, 50, 0.0, stream(0, "p"))
    high, low = _coefficients(prompts.tokens)
    assert prompts.tokens.shape == (50, 7, 20)
    for place in range(7):
        size = 0.1 if place % 2 == 0 else 1.0
        torch.testing.assert_close(high[ROWS, place, prompts.concept], torch.full((50,), size))
        assert (high[:, place].count_nonzero(dim=1) == 2).all()
        torch.testing.assert_close(high[:, place].sum(dim=1), torch.full((50,), 2 * size))
    assert ((low.abs() == 1) == (high != 0)).all()


def test_the_tokens_of_a_pair_share_the_sign_of_their_concept() -> None:
    prompts = demonstration_prompts(CONCEPTS, 3, 50, 0.0, stream(0, "p"))
    _, low = _coefficients(prompts.tokens)
    own = low[ROWS, :, prompts.concept]
    assert (own[:, 0:6:2] == own[:, 1:6:2]).all()
    assert (own[:, -1] == prompts.sign).all()
    assert {-1.0, 1.0} == set(own[:, 0].tolist())
    assert (own[:, 0] != prompts.sign).any()


def test_a_shared_sign_is_the_first_pairs() -> None:
    prompts = demonstration_prompts(CONCEPTS, 2, 50, 0.0, stream(0, "p"), shared_sign=True)
    _, low = _coefficients(prompts.tokens)
    own = low[ROWS, :, prompts.concept]
    assert (own[:, :2] == prompts.sign[:, None]).all()
    assert (own[:, 2] != prompts.sign).any()


def test_unrelated_pairs_show_concepts_of_their_own() -> None:
    prompts = demonstration_prompts(CONCEPTS, 3, 50, 0.0, stream(0, "p"), related=False)
    high, _ = _coefficients(prompts.tokens)
    shown = (high[ROWS, :, prompts.concept] != 0).float()
    assert (shown[:, -1] == 1).all()
    # One of 5 concepts is shown and one of the 4 others distracts: 2 of 5 tokens carry any one.
    assert 0.3 < shown[:, :-1].mean() < 0.5


def test_the_answer_is_the_query_concepts_label() -> None:
    prompts = demonstration_prompts(CONCEPTS, 1, 50, 0.0, stream(0, "p"))
    labels = CONCEPTS.dictionary()[prompts.answers]
    expected = (
        CONCEPTS.high[prompts.concept] + prompts.sign[:, None] * CONCEPTS.low[prompts.concept]
    )
    torch.testing.assert_close(labels, expected)


def test_a_question_names_the_concept_once_and_no_low_level_vector() -> None:
    prompts = questions(CONCEPTS, 6, 50, 0.0, stream(0, "q"))
    prefix = prompts.tokens[:, :-1]
    high, low = _coefficients(prefix)
    assert (low == 0).all()
    torch.testing.assert_close(high.sum(dim=1), torch.eye(5)[prompts.concept])
    torch.testing.assert_close(
        (prefix @ CONCEPTS.common.mT).sum(dim=(1, 2)), torch.full((50,), 5.0)
    )
    query_high, query_low = _coefficients(prompts.tokens[:, -1])
    torch.testing.assert_close(query_high[ROWS, prompts.concept], torch.full((50,), 0.1))
    assert (query_low[ROWS, prompts.concept] == prompts.sign).all()


def test_shuffled_questions_ask_for_another_concept_than_they_name() -> None:
    prompts = questions(CONCEPTS, 6, 50, 0.0, stream(0, "q"), shuffled=True)
    named = _coefficients(prompts.tokens[:, :-1])[0].sum(dim=1).argmax(dim=1)
    assert 0.05 < (named == prompts.concept).float().mean() < 0.4


def test_a_question_may_precede_demonstrations_of_its_concept() -> None:
    prompts = questions_with_demonstrations(CONCEPTS, 6, 2, 50, 0.0, stream(0, "q"))
    assert prompts.tokens.shape == (50, 6 + 5, 20)
    named = _coefficients(prompts.tokens[:, :6])[0].sum(dim=1).argmax(dim=1)
    assert (named == prompts.concept).all()


def test_mixtures_carry_weighted_concepts_in_every_token_and_a_distractor_beside() -> None:
    tokens, weights = mixtures(CONCEPTS, 3, 2, 50, 0.0, stream(0, "m"))
    high, low = _coefficients(tokens)
    assert (weights.count_nonzero(dim=1) == 3).all()
    torch.testing.assert_close(weights.norm(dim=1), torch.ones(50))
    rest = high[:, 1] - weights
    torch.testing.assert_close(rest.sum(dim=1), torch.ones(50))
    assert (rest[weights > 0].abs() < 1e-6).all()
    assert (low.count_nonzero(dim=2) == 4).all()


def test_noise_has_the_given_spread() -> None:
    calm = demonstration_prompts(CONCEPTS, 3, 200, 0.0, stream(0, "p")).tokens
    noisy = demonstration_prompts(CONCEPTS, 3, 200, 0.3, stream(0, "p")).tokens
    assert abs((noisy - calm).std().item() - 0.3) < 0.01
