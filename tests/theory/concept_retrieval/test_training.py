"""The model and its training against independent computations."""

from __future__ import annotations

import math

import pytest
import torch

from harness_ext.theory.concept_retrieval.model import (
    Architecture,
    Weights,
    hidden_states,
    initial_weights,
    stream,
    task_vectors,
)
from harness_ext.theory.concept_retrieval.training import RECIPES, Setting, loss, train

SMALL = Setting(concepts=3, common=4, dimension=12, batch=16, steps=3, pairs=2, length=4)


def _example() -> tuple[Weights, torch.Tensor]:
    generator = stream(0, "example")
    matrices = torch.randn(3, 1, 5, 5, generator=generator, dtype=torch.float64)
    return Weights(*matrices), torch.randn(1, 2, 4, 5, generator=generator, dtype=torch.float64)


def test_h0_is_the_papers_sum_over_tokens() -> None:
    weights, tokens = _example()
    found = task_vectors(weights, tokens)[0]
    for prompt in range(2):
        *seen, last = tokens[0, prompt]
        scores = [(weights.key[0] @ t) @ (weights.query[0] @ last) for t in seen]
        total = sum(math.exp(score) for score in scores)
        expected = sum(
            (weights.value[0] @ t) * (math.exp(score) / total)
            for t, score in zip(seen, scores, strict=True)
        )
        torch.testing.assert_close(found[prompt], expected)


def test_parts_of_the_state_can_be_left_out() -> None:
    task = torch.tensor([[3.0, 4.0]])
    query = torch.tensor([[1.0, -1.0]])
    cases = {
        (True, True): [[1.6, -0.2]],
        (False, True): [[0.6, 0.8]],
        (True, False): [[4.0, 3.0]],
        (False, False): [[3.0, 4.0]],
    }
    for (residual, normalised), expected in cases.items():
        found = hidden_states(task, query, Architecture(residual, normalised))
        torch.testing.assert_close(found, torch.tensor(expected))


def test_a_step_follows_the_gradient_found_by_finite_differences() -> None:
    weights, tokens = _example()
    dictionary = torch.randn(6, 5, generator=stream(1, "rows"), dtype=torch.float64)
    answers = torch.tensor([[0, 4]])

    def total(value: torch.Tensor, key: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        models = Weights(value, key, query)
        return loss(models, tokens, answers, dictionary, Architecture(), 0.1).sum()

    leaves = tuple(
        matrix.clone().requires_grad_() for matrix in (weights.value, weights.key, weights.query)
    )
    assert torch.autograd.gradcheck(total, leaves)


def test_the_loss_is_cross_entropy_plus_half_the_decay_times_squares() -> None:
    weights, tokens = _example()
    dictionary = torch.randn(6, 5, generator=stream(1, "rows"), dtype=torch.float64)
    states = hidden_states(task_vectors(weights, tokens), tokens[:, :, -1], Architecture())[0]
    logits = states @ dictionary.mT
    entropy = -torch.stack(
        [logits[0, 0] - logits[0].logsumexp(0), logits[1, 4] - logits[1].logsumexp(0)]
    ).mean()
    squares = sum((m**2).sum() for m in (weights.value, weights.key, weights.query))
    found = loss(weights, tokens, torch.tensor([[0, 4]]), dictionary, Architecture(), 0.1)[0]
    torch.testing.assert_close(found, entropy + 0.05 * squares)


@pytest.mark.parametrize("name", RECIPES)
def test_a_seed_trains_alike_alone_and_beside_others(name: str) -> None:
    alone = train(RECIPES[name], SMALL, [7])
    beside = train(RECIPES[name], SMALL, [3, 7])
    torch.testing.assert_close(alone.value[0], beside.value[1], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(alone.query[0], beside.query[1], atol=1e-5, rtol=1e-4)
    assert not torch.equal(beside.value[0], beside.value[1])


def test_a_step_descends_the_loss_of_a_fresh_batch_at_the_given_rate() -> None:
    setting = Setting(concepts=3, common=4, dimension=12, batch=16, steps=1, rate=0.5, decay=0.2)
    first = initial_weights([5], 12, setting.spread)
    leaves = [matrix.requires_grad_() for matrix in (first.value, first.key, first.query)]
    concepts = setting.vectors()
    batch = RECIPES["qa"].draw(setting, concepts, stream(5, "training"))
    value = loss(
        Weights(*leaves),
        batch.tokens[None],
        batch.answers[None],
        concepts.dictionary(),
        Architecture(),
        0.2,
    ).sum()
    value.backward()
    last = train(RECIPES["qa"], setting, [5])
    for leaf, found in zip(leaves, (last.value, last.key, last.query), strict=True):
        assert leaf.grad is not None
        torch.testing.assert_close(found, leaf.detach() - 0.5 * leaf.grad)


def test_the_watcher_sees_every_step_and_the_end() -> None:
    seen: list[int] = []
    train(RECIPES["qa"], SMALL, [0], lambda step, weights: seen.append(step))
    assert seen == [0, 1, 2, 3]


def test_streams_differ_by_seed_and_purpose() -> None:
    draws = {
        torch.rand(1, generator=stream(seed, purpose)).item()
        for seed in range(3)
        for purpose in ("a", "b")
    }
    assert len(draws) == 6
