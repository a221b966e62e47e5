from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from harness_ext.steering import one_pass as module
from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.one_pass import batches, one_pass
from harness_ext.steering.scoring import SweepPrompt, SweepScores
from harness_ext.steering.sweep import layer_loop
from tests.models import LAYERS, VOCABULARY, tiny_model
from tests.steering.oracle import token_rows


def equal_prompts(n: int) -> list[SweepPrompt]:
    """Eight tokens each, the cue the last, but for a target token behind it."""
    return [SweepPrompt(tuple(row), (6,), ((5,), (6, 7))) for row in token_rows(*[8] * n)]


@pytest.mark.parametrize("columns", [[0], [1], [0, 1]], ids=["replace", "add", "both"])
def test_one_pass_gives_what_a_forward_per_layer_gives(
    anatomy: Anatomy,
    prompts: list[SweepPrompt],
    vectors: Tensor,
    looped: SweepScores,
    columns: list[int],
) -> None:
    found = one_pass(anatomy, prompts, vectors, [(None, 2.0)[column] for column in columns])
    expected = looped.log_prob[..., columns]
    torch.testing.assert_close(found.log_prob, expected, atol=1e-4, rtol=1e-5)
    assert torch.equal(found.right, looped.right[..., columns])


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "mpt", "bloom", "falcon_alibi"])
def test_a_prompt_alone_gives_what_it_gives_among_others(
    family: str, prompts: list[SweepPrompt], vectors: Tensor
) -> None:
    """Its rows are then as many as heads: what belongs to heads must not be taken for theirs."""
    anatomy = dissect(tiny_model(family))
    together = one_pass(anatomy, prompts, vectors)
    for n in (0, 3, 4, 6, 10, 11, 13):
        alone = one_pass(anatomy, prompts[n : n + 1], vectors[n : n + 1])
        torch.testing.assert_close(alone.log_prob[0], together.log_prob[n], atol=1e-4, rtol=1e-5)


def test_a_model_of_one_layer_is_swept_too() -> None:
    anatomy = dissect(tiny_model("llama", num_hidden_layers=1))
    prompts = [SweepPrompt(tuple(row), (4,), ((5,),)) for row in token_rows(5, 5, 5)]
    vectors = torch.randn(3, 1, 1, 32, generator=torch.Generator().manual_seed(0))
    found, expected = one_pass(anatomy, prompts, vectors), layer_loop(anatomy, prompts, vectors)
    torch.testing.assert_close(found.log_prob, expected.log_prob)


@pytest.mark.parametrize(
    ("strengths", "rows"),
    [((None,), (3, 3, 6, 9)), ((1.0, 2.0), (3, 9, 15, 21))],
    ids=["replaced rows leave the plain one behind", "added vectors keep it"],
)
def test_a_layer_sees_only_the_rows_that_differ_by_then(
    strengths: Sequence[float | None], rows: Sequence[int]
) -> None:
    anatomy = dissect(tiny_model("llama"))
    shapes: list[tuple[int, ...]] = []
    for layer in anatomy.layers:
        layer.self_attn.register_forward_hook(
            lambda _, __, output: shapes.append(tuple(output[0].shape[:2]))
        )
    prompts = [SweepPrompt(tuple(row), (7,), ((5,),)) for row in token_rows(8, 8, 8)]
    vectors = torch.randn(3, LAYERS, 1, 32, generator=torch.Generator().manual_seed(0))
    one_pass(anatomy, prompts, vectors, strengths)
    prefix, tails = shapes[:LAYERS], shapes[LAYERS:]
    assert prefix == [(3, 7)] * LAYERS
    assert tails == [(n, 1) for n in rows]


def test_the_pass_leaves_no_hook_behind_even_after_an_exception(
    llama: Anatomy, prompts: list[SweepPrompt], vectors: Tensor
) -> None:
    # transformers leaves hooks of its own on a model that was asked for attention weights.
    before = [{*m._forward_hooks, *m._forward_pre_hooks} for m in llama.model.modules()]
    one_pass(llama, prompts, vectors)
    with pytest.raises(RuntimeError):
        one_pass(llama, prompts, vectors[..., :5])
    after = [{*m._forward_hooks, *m._forward_pre_hooks} for m in llama.model.modules()]
    assert after == before


@pytest.mark.parametrize(("family", "mixes"), [("llama", True), ("gemma2", False)])
def test_every_prompt_stands_in_one_batch_with_others_alike_before_their_first_cue(
    family: str, mixes: bool, prompts: list[SweepPrompt]
) -> None:
    """Rows of different lengths are mixed where their last states can be picked out."""
    anatomy = dissect(tiny_model(family))
    found = list(batches(anatomy, prompts, 5))
    assert sorted(i for batch in found for i in batch) == list(range(len(prompts)))
    for batch in found:
        own = [prompts[i] for i in batch]
        assert len({(p.cues[0], len(p.cues), len(p.targets)) for p in own}) == 1
    assert ([12, 10, 11] in found) is mixes
    assert ([2, 0, 1, 7, 8] in found) is mixes
    apart = list(batches(anatomy, prompts, 5, padded=False))
    assert all(len({len(prompts[i].ids) for i in batch}) == 1 for batch in apart)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.parametrize("scored", [one_pass, layer_loop])
def test_the_rows_of_a_batch_keep_to_their_budget(
    monkeypatch: pytest.MonkeyPatch, family: str, scored: Any
) -> None:
    anatomy = dissect(tiny_model(family))
    prompts = equal_prompts(7)
    vectors = torch.randn(7, LAYERS, 1, 32, generator=torch.Generator().manual_seed(0))
    whole = scored(anatomy, prompts, vectors)
    rows_each = LAYERS + 1 if scored is one_pass else 1
    # A capped head needs its logits, which are as wide as the vocabulary.
    width = 32 if anatomy.bare_head else VOCABULARY
    numbers = max(2 * width, 2 * 32 * len(prompts[0].ids))  # at the end, or in keys and values
    three = 3 * rows_each * numbers * 4
    monkeypatch.setattr(module, "ROW_BUDGET", three + 7)
    seen: list[int] = []
    norm = anatomy.model.model.norm
    handle = norm.register_forward_hook(lambda _, __, output: seen.append(output.shape[0]))
    bounded = scored(anatomy, prompts, vectors)
    handle.remove()
    # One pass fills up to a prime number of rows.
    assert 3 * rows_each <= max(seen) <= 3 * rows_each + 2
    assert len(seen) >= 3
    torch.testing.assert_close(bounded.log_prob, whole.log_prob, atol=1e-5, rtol=1e-5)
    assert torch.equal(bounded.right, whole.right)


def test_a_prompt_beyond_the_budget_runs_alone(
    llama: Anatomy, prompts: list[SweepPrompt], vectors: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = one_pass(llama, prompts, vectors)
    monkeypatch.setattr(module, "ROW_BUDGET", 1)
    assert all(len(batch) == 1 for batch in batches(llama, prompts, 5))
    torch.testing.assert_close(one_pass(llama, prompts, vectors).log_prob, whole.log_prob)
