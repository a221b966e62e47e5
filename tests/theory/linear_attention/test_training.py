from __future__ import annotations

import torch

from harness_ext.theory.linear_attention.gradients import gradient_scores, score_bound
from harness_ext.theory.linear_attention.model import Weights
from harness_ext.theory.linear_attention.optimum import two_layer_numbers
from harness_ext.theory.linear_attention.structure import Structure
from harness_ext.theory.linear_attention.training import Recipe, train


def same(one: Weights, other: Weights) -> bool:
    return all(torch.equal(v, other.tensors()[k]) for k, v in one.tensors().items())


def test_training_is_determined_by_its_seeds() -> None:
    recipe = Recipe(steps=3, batch=4)
    first, _ = train("pairwise", 2, 3, 2, [0, 1], recipe)
    again, _ = train("pairwise", 2, 3, 2, [0, 1], recipe)
    other, _ = train("pairwise", 2, 3, 2, [1, 2], recipe)
    assert same(first, again)
    assert not same(first, other)


def test_training_lowers_every_seeds_risk() -> None:
    _, before = train("single", 1, 6, 2, range(4), Recipe(steps=1, batch=500))
    _, after = train("single", 1, 6, 2, range(4), Recipe(steps=200, batch=100))
    assert (after < before).all()


def test_training_goes_on_from_given_weights_and_leaves_them_alone() -> None:
    recipe = Recipe(steps=30, batch=100)
    first, risk = train("single", 1, 6, 2, [0], recipe)
    kept = first.map({name: value.clone() for name, value in first.tensors().items()})
    _, lower = train("single", 1, 6, 2, [0], recipe, first)
    assert float(lower) < float(risk)
    assert same(first, kept)


def test_gradients_vanish_at_an_optimum_and_not_beside_it() -> None:
    structure = Structure("pairwise", 2)
    best = two_layer_numbers("pairwise", 5, 2)
    largest = []
    for numbers in (best, 1.2 * best):
        generator = torch.Generator().manual_seed(0)
        weights = structure.weights(numbers, 5, 2)
        scores = gradient_scores(generator, weights, "pairwise", 5, 2, separable=True)
        entries = sum(score.numel() for score in scores.values())
        largest.append(max(float(score.abs().max()) for score in scores.values()))
    bound = score_bound(entries, 1e-3)
    assert largest[0] < bound < largest[1]
