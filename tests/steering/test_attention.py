"""Finding where attention heads write, in every family that has such places."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import dissect
from harness_ext.steering.attention import Attention, dissect_attention
from tests.models import FAMILIES, LAYERS, tiny_model

SPLIT = [family for family in FAMILIES if family != "opt_projected"]

# The size of a head's output where it is not width / heads.
SIZES = {name: 16 for name in ("qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "gpt_oss")}
SIZES |= {"deepseek_v3": 12}
# The ends of the projections' names, from reading the families' code.
PROJECTIONS = ("o_proj", "out_proj", "c_proj", "dense")
NORMED = {"gemma2", "gemma3_text", "olmo2"}


def parts(family: str, **settings: object) -> Attention:
    return dissect_attention(dissect(tiny_model(family, **settings)))


@pytest.mark.parametrize("family", SPLIT)
def test_the_output_projection_of_every_layer_is_found(family: str) -> None:
    found = parts(family)
    assert (found.layers, found.heads, found.size) == (LAYERS, 4, SIZES.get(family, 8))
    names = {module: name for name, module in found.anatomy.model.named_modules()}
    for number, output in enumerate(found.outputs):
        name = names[output.projection]
        assert f".{number}." in name
        assert "attn" in name or "attention" in name
        assert name.rsplit(".", 1)[1] in PROJECTIONS


@pytest.mark.parametrize("family", SPLIT)
def test_norms_behind_attention_and_scales_are_found_where_they_are(family: str) -> None:
    for output in parts(family).outputs:
        kinds = [type(norm.module).__name__ for norm in output.norms]
        assert len(kinds) == (family in NORMED)
        assert output.scale == pytest.approx(0.5 if family == "granite" else 1.0, abs=1e-4)


def test_parallel_recurrent_layers_are_not_taken_for_attention() -> None:
    found = parts("falcon_h1")
    names = {module: name for name, module in found.anatomy.model.named_modules()}
    assert all("self_attn.o_proj" in names[output.projection] for output in found.outputs)


@pytest.mark.parametrize(
    ("family", "reason"),
    [("opt_projected", "a norm behind the addition"), ("qwen3_next", "layer 0 has no projection")],
)
def test_a_model_whose_attention_cannot_be_split_is_refused_by_name(
    family: str, reason: str
) -> None:
    model = tiny_model(family)
    with pytest.raises(UsageError, match=reason) as error:
        dissect_attention(dissect(model))
    assert type(model).__name__ in str(error.value)


def test_heads_that_do_not_divide_the_projections_input_are_refused() -> None:
    anatomy = dissect(tiny_model("llama"))
    anatomy.model.config.num_attention_heads = 5
    with pytest.raises(UsageError, match="no multiple of the 5 heads"):
        dissect_attention(anatomy)


def test_finding_heads_leaves_no_hook_behind() -> None:
    found = parts("gemma2")
    for module in found.anatomy.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "granite", "gpt2", "olmo2"])
def test_coarse_dtypes_are_dissected_alike(family: str) -> None:
    fine, model = parts(family), tiny_model(family).to(torch.bfloat16)
    coarse = dissect_attention(dissect(model))
    assert (coarse.heads, coarse.size) == (fine.heads, fine.size)
    for one, other in zip(fine.outputs, coarse.outputs, strict=True):
        assert len(one.norms) == len(other.norms)
        assert other.scale == pytest.approx(one.scale, rel=0.01)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_states_that_are_large_beside_what_attention_adds_do_not_hide_it(
    dtype: torch.dtype,
) -> None:
    """As in SmolLM2, whose states round away what is as small as attention's own results."""
    model = tiny_model("llama")
    model.get_input_embeddings().weight.data *= 2000
    coarse = dissect_attention(dissect(model.to(dtype)))
    assert [one.scale for one in coarse.outputs] == pytest.approx(
        [1.0] * len(coarse.outputs), rel=0.01
    )


class _Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.abs()


def test_what_follows_attention_and_is_no_norm_is_refused() -> None:
    model = tiny_model("gemma2")
    for layer in model.model.layers:
        layer.post_attention_layernorm = _Squared()
    with pytest.raises(UsageError, match="goes through a _Squared, which is no norm"):
        dissect_attention(dissect(model))


def test_a_centering_norm_is_followed() -> None:
    model = tiny_model("gemma2")
    generator = torch.Generator().manual_seed(3)
    for layer in model.model.layers:
        norm = nn.LayerNorm(32)
        norm.weight.data = torch.randn(32, generator=generator)
        norm.bias.data = torch.randn(32, generator=generator)
        layer.post_attention_layernorm = norm
    (norm,) = dissect_attention(dissect(model)).outputs[0].norms
    assert norm.centers
    pieces = torch.randn(3, 5, 32, generator=generator)
    whole = pieces.sum(dim=1)
    shares = norm.share(pieces, whole, norm.module(whole))
    torch.testing.assert_close(shares.sum(dim=1) + norm.offset, norm.module(whole))
