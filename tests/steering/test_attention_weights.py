from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.attention_weights import weights_at, weights_at_each
from tests.models import LAYERS, tiny_model
from tests.steering.oracle import token_rows

LENGTHS = (11, 3, 7, 11, 1, 9, 7)
NOWHERE = {"gpt_oss"}
"""Families in which a head may attend to nothing."""


def eager(family: str) -> PreTrainedModel:
    """The family's tiny model, built with eager attention from the start."""
    return tiny_model(family, attn_implementation="eager")


def given_out(model: PreTrainedModel, row: list[int]) -> Tensor:
    """All weights of one row, [layers, heads, tokens, tokens], as transformers gives them out."""
    with torch.no_grad():
        output = model(input_ids=torch.tensor([row]), use_cache=False, output_attentions=True)
    return torch.cat(output.attentions)


def test_weights_are_those_of_each_row_alone_in_a_model_built_eager(
    family: str, anatomy: Anatomy
) -> None:
    rows = token_rows(*LENGTHS)
    positions = [len(row) // 2 for row in rows]
    model = eager(family)
    # 24 padded tokens: batches of 2, 2 (of unequal length), 3 rows
    for row, position, found in zip(
        rows, positions, weights_at(anatomy, rows, positions, budget=24), strict=True
    ):
        assert found.dtype == torch.float32
        expected = given_out(model, row)[:, :, position]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_weights_sum_to_one_and_reach_no_later_token(family: str, anatomy: Anatomy) -> None:
    row = token_rows(9)[0]
    (found,) = weights_at_each(anatomy, [row], [range(9)])
    assert found.shape == (LAYERS, 4, 9, 9)
    assert not found.triu(1).any()
    sums = found.sum(dim=-1)
    if family in NOWHERE:
        assert (sums < 1).all() and (sums > 0).all()
    else:
        torch.testing.assert_close(sums, torch.ones_like(sums))


def test_the_model_is_afterwards_as_it_was(family: str) -> None:
    model = tiny_model(family)
    anatomy = dissect(model)
    rows = token_rows(9, 6)
    ids = torch.tensor(rows[:1])
    implementations = every_implementation(model)
    with torch.no_grad():
        before = model(input_ids=ids).logits
    weights_at(anatomy, rows, [8, 5])
    assert every_implementation(model) == implementations
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, before)
        # and what it gives out is whole again
        model.config._attn_implementation = "eager"
        given = model(input_ids=ids, output_attentions=True).attentions
    assert [tuple(each.shape) for each in given] == [(1, 4, 9, 9)] * LAYERS


def every_implementation(model: PreTrainedModel) -> list[Any]:
    configs = [m.config for m in model.modules() if isinstance(m, PreTrainedModel)]
    parts = [getattr(model.config, key) for key in model.config.sub_configs]
    return [config._attn_implementation for config in (*configs, *parts)]


def test_the_model_is_as_it_was_after_an_exception_too() -> None:
    model = tiny_model("llama")
    anatomy = dissect(model)

    def fail(_: int) -> None:
        assert model.config._attn_implementation == "eager"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights_at(anatomy, token_rows(5, 5), [4, 4], done=fail)
    with pytest.raises(IndexError):
        weights_at(anatomy, token_rows(5), [7])
    assert model.config._attn_implementation == "sdpa"
    # No hook is left that would cut what the model gives out.
    model.config._attn_implementation = "eager"
    given = given_out(eager("llama"), token_rows(5)[0])
    torch.testing.assert_close(given_out(model, token_rows(5)[0]), given)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neo", "falcon", "gemma3_text"])
@pytest.mark.parametrize("budget", [1, 22, 30, 4096])
def test_weights_do_not_depend_on_the_batches(family: str, budget: int) -> None:
    anatomy = dissect(tiny_model(family))
    rows = token_rows(*LENGTHS)
    last = [len(row) - 1 for row in rows]
    finished: list[int] = []
    found = weights_at(anatomy, rows, last, finished.append, budget)
    alone = [weights_at(anatomy, [row], [len(row) - 1])[0] for row in rows]
    for one, other in zip(found, alone, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
    assert sum(finished) == len(rows)


def test_rows_may_be_read_at_different_numbers_of_tokens(llama: Anatomy) -> None:
    rows = token_rows(6, 9)
    positions = [[5], [2, 8, 0]]
    found = weights_at_each(llama, rows, positions)
    assert [tuple(each.shape) for each in found] == [(LAYERS, 4, 1, 6), (LAYERS, 4, 3, 9)]
    for n, own in enumerate(positions):
        for k, position in enumerate(own):
            (expected,) = weights_at(llama, [rows[n]], [position])
            torch.testing.assert_close(found[n][:, :, k], expected)


def test_no_rows_have_no_weights(llama: Anatomy) -> None:
    assert weights_at(llama, [], []) == []


def test_a_window_hides_tokens_further_back() -> None:
    (found,) = weights_at(dissect(tiny_model("gemma3_text")), token_rows(12), [11])
    assert not found[0::2, :, :7].any() and found[0::2, :, 7:].all()
    assert found[1::2].all()


def test_a_forward_never_reaches_the_logits_and_no_layer_keeps_its_weights() -> None:
    anatomy = dissect(tiny_model("llama"))
    weights_at(anatomy, token_rows(4), [3])  # from now on transformers' own hooks are there
    calls: list[int] = []
    widths: list[int] = []
    head = anatomy.model.get_output_embeddings()
    head.register_forward_hook(lambda *_: calls.append(1))
    for layer in anatomy.layers:
        layer.self_attn.register_forward_hook(lambda *call: widths.append(call[2][1].numel()))
    weights_at(anatomy, token_rows(9, 9), [8, 8])
    assert len(calls) == 1  # by the four tokens that show where weights arise
    assert [n for n in widths if n != 4 * 4 * 4] == [1] * (LAYERS - 1)


def test_a_model_with_layers_without_weights_is_refused_by_name() -> None:
    anatomy = dissect(tiny_model("qwen3_next"))
    with pytest.raises(UsageError, match=r"Qwen3NextForCausalLM gives .* in 2 of its 4 layers"):
        weights_at(anatomy, token_rows(5), [4])
    assert anatomy.model.config._attn_implementation == "sdpa"


def test_layers_that_mix_attention_and_recurrence_give_their_attentions_weights() -> None:
    row = token_rows(9)[0]
    (found,) = weights_at(dissect(tiny_model("falcon_h1")), [row], [8])
    expected = given_out(eager("falcon_h1"), row)[:, :, 8]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kept", ["none", "later"])
def test_a_model_that_gives_no_weights_or_wrong_ones_is_refused(
    kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    anatomy = dissect(tiny_model("gpt2"))
    plain = anatomy.model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = plain(*args, **kwargs)
        if kept == "none":
            output.attentions = None
        else:
            output.attentions[1].fill_(0.25)
        return output

    monkeypatch.setattr(anatomy.model, "forward", forward)
    number = 0 if kept == "none" else LAYERS - 1
    with pytest.raises(UsageError, match=rf"GPT2LMHeadModel gives .* in {number} of its 4 layers"):
        weights_at(anatomy, token_rows(5), [4])
    assert anatomy.model.config._attn_implementation == "sdpa"
