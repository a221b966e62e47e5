from __future__ import annotations

import pytest
import torch

from harness_ext.theory import Cell
from harness_ext.theory.linear_attention.model import squared_errors, states
from harness_ext.theory.linear_attention.optimum import least_risk
from harness_ext.theory.linear_attention.prompts import Pairs, draw_pairs, tokens
from harness_ext.theory.linear_attention.structure import Structure, orthonormal_mixing
from harness_ext.theory.one_shot_equivalence import OneShotEquivalence, _Model, _numbers

N, D = 6, 3


@pytest.fixture
def mixing() -> torch.Tensor:
    return orthonormal_mixing(torch.Generator().manual_seed(0), N)


@pytest.fixture
def pairs() -> Pairs:
    return draw_pairs(torch.Generator().manual_seed(1), N, D, 5)


def test_three_layers_predict_what_two_of_single_tokens_do(mixing, pairs) -> None:
    single = least_risk("single", 2, N, D, range(4)).numbers
    errors = squared_errors(
        Structure("single", 2).weights(single, N, D), tokens(pairs, "single"), pairs
    )
    weights = Structure("triplet", 3).weights(_numbers(3, N, D), N, D, mixing)
    torch.testing.assert_close(squared_errors(weights, tokens(pairs, "triplet"), pairs), errors)


def test_the_vector_is_the_state_at_the_last_arrow_after_the_first_layer(mixing, pairs) -> None:
    model = _Model(_numbers(2, N, D), 2, N, D, mixing)
    _, first, _ = states(model.full, tokens(pairs, "triplet"), N)
    torch.testing.assert_close(model.vectors(pairs, query=True), first[..., -2])


def test_the_vector_is_one_demonstration_of_the_same_map(mixing, pairs) -> None:
    vectors = _Model(_numbers(2, N, D), 2, N, D, mixing).vectors(pairs, query=True)
    x, y = vectors.split(D, -1)
    torch.testing.assert_close((pairs.maps @ x[..., None])[..., 0], y)


def test_a_mismatched_vector_does_worse_than_a_task_vector() -> None:
    check = OneShotEquivalence()
    cell = Cell(check.name, {"layers": 2, "n": 5, "d": 4, "seed": 0})
    found = check.measure(cell)["text"]
    assert found["mismatched"] > 1.2 * found["vector"]
    as_described, _ = check.judge([(cell, check.measure(cell))])
    assert as_described.verdict == "holds"
