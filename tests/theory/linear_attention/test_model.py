from __future__ import annotations

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.model import Weights, forward, prediction, states
from harness_ext.theory.linear_attention.prompts import draw_pairs, tokens

N, D = 3, 2


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_weights(layers: int, size: int, *batch: int) -> Weights:
    shapes = [(D, D)] * 3 + [(size, size)]
    return Weights(
        *(
            0.3 * torch.randn(*batch, layers, *shape, generator=generator(k), dtype=torch.float64)
            for k, shape in enumerate(shapes)
        )
    )


def by_the_equation(weights: Weights, state: torch.Tensor) -> torch.Tensor:
    """Z + V Z M Zaugᵀ Q Zaug / n with block matrices spelled out, one prompt."""
    size = state.shape[-1]
    mask = torch.eye(size, dtype=state.dtype)
    mask[-1, -1] = 0
    for layer in range(weights.layers):
        value = torch.block_diag(weights.upper[layer], weights.lower[layer])
        zeros = torch.zeros(D, D, dtype=state.dtype)
        key_query = torch.block_diag(weights.content[layer], zeros, weights.position[layer])
        augmented = torch.cat([state, torch.eye(size, dtype=state.dtype)])
        state = state + value @ state @ mask @ augmented.T @ key_query @ augmented / N
    return state


@pytest.mark.parametrize(("layout", "per_pair"), [("single", 1), ("pairwise", 2), ("triplet", 3)])
def test_the_model_follows_its_equation(layout, per_pair) -> None:
    pairs = draw_pairs(generator(), N, D, 4)
    weights = random_weights(2, per_pair * (N + 1))
    state = tokens(pairs, layout)
    found = forward(weights, state, N)
    for k in range(4):
        torch.testing.assert_close(found[k], by_the_equation(weights, state[k]))


def test_a_batch_of_weights_gives_what_each_gives_alone() -> None:
    pairs = draw_pairs(generator(), N, D, 3, 5)
    weights = random_weights(2, 2 * (N + 1), 3)
    state = tokens(pairs, "pairwise")
    together = forward(weights, state, N)
    for seed in range(3):
        alone = Weights(*(tensor[seed] for tensor in weights.tensors().values()))
        torch.testing.assert_close(together[seed], forward(alone, state[seed], N))


def test_prompts_hide_the_answer_and_place_tokens_as_the_formats_say() -> None:
    pairs = draw_pairs(generator(), N, D)
    x, y = pairs.inputs, pairs.outputs
    triplet = tokens(pairs, "triplet")
    torch.testing.assert_close(triplet[:D, 0::3], x)
    torch.testing.assert_close(triplet[D:, 2:-3:3], y[:, :-1])
    assert not triplet[:, 1::3].any()
    assert not triplet[:, -1].any()
    single = tokens(pairs, "single")
    torch.testing.assert_close(single[:D], x)
    assert not single[D:, -1].any()
    assert not tokens(pairs, "pairwise", separable=False)[:D].any()


def test_states_begin_with_the_prompt_and_end_with_the_output() -> None:
    state = tokens(draw_pairs(generator(), N, D, 2), "single")
    weights = random_weights(3, N + 1)
    every = list(states(weights, state, N))
    assert len(every) == 4
    assert every[0] is state
    torch.testing.assert_close(every[-1], forward(weights, state, N))
    assert prediction(every[-1]).shape == (2, D)


def test_no_demonstrations_are_refused() -> None:
    with pytest.raises(UsageError, match="n is 0"):
        draw_pairs(generator(), 0, D)
