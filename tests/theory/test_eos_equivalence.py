"""An EOS token against a second head of twice the width."""

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.check import Preset
from harness_ext.theory.eos_equivalence import (
    EosEquivalence,
    differences,
    random_head,
    run_heads,
    two_heads,
)
from harness_ext.theory.linear_attention.model import Weights, forward


def _by_loops(layers, state, keys, scale):
    """The layer written out token by token, with Q as one matrix over [state; position]."""
    width, size = state.shape
    for heads in layers:
        change = torch.zeros_like(state)
        for head in heads:
            upper = torch.cat([head.content, head.query_position], 1)
            lower = torch.cat([head.key_position, head.position], 1)
            matrix = torch.cat([upper, lower])
            augmented = torch.cat([state, torch.eye(size, dtype=state.dtype)])
            for query in range(size):
                for key in range(keys):
                    score = augmented[:, key] @ matrix @ augmented[:, query]
                    change[:, query] += score * (head.value @ state[:, key])
        state = state + scale * change
    assert state.shape[0] == width
    return state


@pytest.mark.parametrize("full", [False, True])
def test_the_construction_agrees_with_token_by_token_loops(full):
    generator = torch.Generator().manual_seed(0)
    one = [random_head(generator, 4, 4, full) for _ in range(2)]
    state = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    eos = torch.randn(4, 1, generator=generator, dtype=torch.float64)
    with_eos = _by_loops([(head,) for head in one], torch.cat([state, eos], 1), 3, 0.3)
    wide = torch.cat([state, torch.zeros_like(state)])
    wide[4:, -1] = eos[:, 0]
    without = run_heads([two_heads(head) for head in one], wide[None], 3, 0.3)[0]
    torch.testing.assert_close(without[:4], with_eos[:, :3])
    torch.testing.assert_close(without[4:, -1], with_eos[:, -1])
    assert without[4:, :-1].abs().max() == 0


def test_one_head_with_the_papers_blocks_is_the_linear_attention_model():
    generator = torch.Generator().manual_seed(1)
    heads = [random_head(generator, 6, 7, full=False) for _ in range(2)]
    state = torch.randn(3, 6, 7, generator=generator, dtype=torch.float64)
    weights = Weights(
        torch.stack([head.value[:3, :3] for head in heads]),
        torch.stack([head.value[3:, 3:] for head in heads]),
        torch.stack([head.content[:3, :3] for head in heads]),
        torch.stack([head.position for head in heads]),
    )
    ours = run_heads([(head,) for head in heads], state, 6, 1 / 4)
    torch.testing.assert_close(ours, forward(weights, state, 4))


def test_every_broken_construction_gives_other_answers():
    figures = differences(layers=2, n=3, d=2, full=True, prompts=5, seed=0)
    assert figures.pop("construction") < 1e-12
    assert len(figures) == 5 and min(figures.values()) > 1e-2


def test_one_layer_is_refused_because_head_1_does_not_reach_its_answer():
    with pytest.raises(UsageError, match="at least 2 layers"):
        differences(layers=1, n=3, d=2, full=True, prompts=5, seed=0)


def test_the_check_ends_as_recorded():
    check = EosEquivalence()
    cells = check.cells(Preset("quick", 1))
    findings = check.judge([(cell, check.measure(cell)) for cell in cells])
    assert [f.verdict for f in findings] == [c.expected for c in check.claims]
