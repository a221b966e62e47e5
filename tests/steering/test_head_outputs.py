"""Contributions of single heads: they sum to the whole, and each is its head's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_ext import packaged_models
from harness_ext.steering.anatomy import dissect
from harness_ext.steering.attention import Attention, dissect_attention
from harness_ext.steering.head_outputs import head_outputs
from tests.models import LAYERS, tiny_model
from tests.steering.test_attention import SPLIT

ROWS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [15, 16, 17, 18, 19, 20, 21, 22, 23], [24]]

# Whose output joins the residual stream, by a layer's submodule; by reading the families' code.
ADDED = {
    "gemma2": "post_attention_layernorm",
    "gemma3_text": "post_attention_layernorm",
    "olmo2": "post_attention_layernorm",
    "bloom": "self_attention.dense",
}
ATTENTION = ("self_attn", "self_attention", "attention", "attn")


def parts(family: str) -> Attention:
    return dissect_attention(dissect(tiny_model(family)))


def added(attention: Attention, family: str, row: list[int]) -> tuple[Tensor, Tensor]:
    """What attention adds at the row's last token, and what of it biases add: [layers, width]."""
    results: list[Tensor] = []
    constant: list[Tensor] = []

    def note(_: object, __: object, output: object) -> None:
        value = output[0] if isinstance(output, tuple) else output
        assert isinstance(value, Tensor)
        results.append(value[0, -1])

    handles = []
    for layer, output in zip(attention.anatomy.layers, attention.outputs, strict=True):
        names = dict(layer.named_modules())
        name = ADDED.get(family) or next(name for name in ATTENTION if name in names)
        handles.append(names[name].register_forward_hook(note))
        bias = getattr(output.projection, "bias", None)
        constant.append(torch.zeros(32) if bias is None else bias.detach())
    with torch.no_grad():
        attention.anatomy.model(input_ids=torch.tensor([row]))
    for handle in handles:
        handle.remove()
    factor = 0.5 if family == "granite" else 1.0
    return factor * torch.stack(results), torch.stack(constant)


@pytest.mark.parametrize("family", SPLIT)
def test_all_heads_and_the_bias_sum_to_what_attention_adds(family: str) -> None:
    attention = parts(family)
    found = head_outputs(attention, ROWS)
    assert found.shape == (len(ROWS), LAYERS, 4, 32)
    for row, outputs in zip(ROWS, found, strict=True):
        whole, bias = added(attention, family, row)
        torch.testing.assert_close(outputs.sum(dim=1) + bias, whole, rtol=1e-4, atol=1e-5)
        assert outputs.norm(dim=-1).min() > 1e-3


@pytest.mark.parametrize("family", SPLIT)
def test_batches_of_mixed_lengths_give_what_single_rows_give(family: str) -> None:
    attention = parts(family)
    together = head_outputs(attention, ROWS)
    alone = torch.cat([head_outputs(attention, [row]) for row in ROWS])
    torch.testing.assert_close(together, alone, rtol=1e-3, atol=1e-5)
    small = head_outputs(attention, ROWS, budget=8)
    torch.testing.assert_close(small, alone, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt2", "falcon", "gpt_oss"])
def test_an_inner_position_gives_what_the_row_ending_there_gives(family: str) -> None:
    attention = parts(family)
    row = ROWS[2]
    inner = head_outputs(attention, [row, row], [3, 6])
    cut = head_outputs(attention, [row[:4], row[:7]])
    torch.testing.assert_close(inner, cut, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "qwen2", "mixtral", "gemma2", "olmo2", "opt"])
def test_the_queries_of_one_head_change_that_heads_output_alone(family: str) -> None:
    attention = parts(family)
    layer = attention.anatomy.layers[0]
    before = head_outputs(attention, ROWS[:1])[0, 0]
    taken = before @ before.sum(dim=0)
    with torch.no_grad():
        own = slice(2 * attention.size, 3 * attention.size)
        layer.self_attn.q_proj.weight[own] = layer.self_attn.q_proj.weight[own].roll(1, dims=0)
    after = head_outputs(attention, ROWS[:1])[0, 0]
    assert taken.isfinite().all()
    # A norm over the sum (or over all queries at once) rescales the other heads, but turns none.
    turned = 1 - torch.cosine_similarity(before, after, dim=-1)
    if family == "olmo2":
        # Queries are normed over all heads before they are used.
        assert turned.argmax() == 2
    else:
        assert (turned > 1e-3).tolist() == [False, False, True, False]


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "bloom", "gpt_neox"])
def test_a_head_whose_columns_of_the_projection_are_zero_adds_nothing(family: str) -> None:
    attention = parts(family)
    projection = attention.outputs[0].projection
    own = slice(attention.size, 2 * attention.size)
    with torch.no_grad():
        weight = projection.weight
        (weight[own] if family == "gpt2" else weight[:, own]).zero_()
    found = head_outputs(attention, ROWS[:1])[0, 0]
    assert (found.abs().amax(dim=-1) == 0).tolist() == [False, True, False, False]


def test_half_precision_gives_nearly_the_same() -> None:
    fine = head_outputs(parts("gemma3_text"), ROWS)
    model = tiny_model("gemma3_text").to(torch.bfloat16)
    coarse = head_outputs(dissect_attention(dissect(model)), ROWS)
    assert coarse.dtype == torch.float32
    assert (coarse - fine).norm() <= 0.05 * fine.norm()


def test_an_adapter_on_the_projection_counts() -> None:
    peft = pytest.importorskip("peft")
    model = tiny_model("llama")
    plain = head_outputs(dissect_attention(dissect(model)), ROWS[:1])
    config = peft.LoraConfig(target_modules=["o_proj"], r=4, init_lora_weights=False)
    wrapped = peft.get_peft_model(model, config).eval()
    attention = dissect_attention(dissect(wrapped))
    adapted = head_outputs(attention, ROWS[:1])
    assert not torch.allclose(adapted[0, 0], plain[0, 0], atol=1e-3)
    whole, bias = added(attention, "llama", ROWS[0])
    torch.testing.assert_close(adapted[0].sum(dim=1) + bias, whole, rtol=1e-4, atol=1e-5)


def test_progress_is_told_and_no_hook_is_left() -> None:
    attention = parts("gemma2")
    told: list[int] = []
    head_outputs(attention, ROWS, done=told.append, budget=8)
    assert sum(told) == len(ROWS)
    assert len(told) > 1
    for module in attention.anatomy.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


@pytest.mark.packaged
def test_heads_of_the_packaged_gemma_pass_through_its_norm_as_by_hand() -> None:
    """Each head alone through the projection and the norm, under the whole's scale."""
    name = "gemma-3-270m"
    if packaged_models.state(name) == "not fetched":
        pytest.skip(f"{name} is tested where it has been fetched")
    folder = packaged_models.path(name)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = AutoTokenizer.from_pretrained(folder)("Example: hot → cold\nExample: big →").input_ids
    given, added = [], []
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_pre_hook(
            lambda module, args: given.append(args[0][0, -1].clone())
        )
        layer.post_attention_layernorm.register_forward_hook(
            lambda module, args, output: added.append(output[0, -1].clone())
        )
    with torch.no_grad():
        model(torch.tensor([ids]))
    found = head_outputs(dissect_attention(dissect(model)), [ids])[0]
    heads = model.config.num_attention_heads
    for own, layer, inputs, sum_ in zip(found, model.model.layers, given, added, strict=False):
        columns = layer.self_attn.o_proj.weight.detach().unflatten(1, (heads, -1))
        alone = torch.einsum("whd,hd->hw", columns, inputs.unflatten(0, (heads, -1)))
        mean_square = alone.sum(dim=0).square().mean() + model.config.rms_norm_eps
        norm = 1 + layer.post_attention_layernorm.weight.detach()
        expected = alone * norm * mean_square.rsqrt()
        torch.testing.assert_close(own, expected, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(own.sum(dim=0), sum_, atol=1e-3, rtol=1e-3)
