from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertLMHeadModel,
    Mamba2Config,
    MambaConfig,
    PreTrainedModel,
    RwkvConfig,
    T5Config,
    T5ForConditionalGeneration,
)

from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import Anatomy, dissect, hidden_of, with_hidden
from tests.models import LAYERS, VOCABULARY, randomized, tiny_model
from tests.steering.oracle import decoder_layers

SMALL_SEQ2SEQ: dict[str, Any] = {"vocab_size": 50, "d_model": 16}


def test_the_decoder_layers_are_found_by_structure(family: str, anatomy: Anatomy) -> None:
    assert list(anatomy.layers) == decoder_layers(family, anatomy.model)
    assert len(anatomy.layers) == LAYERS
    assert anatomy.hidden_size == 32
    assert anatomy.vocabulary_size == VOCABULARY
    assert anatomy.device == torch.device("cpu")


def test_dissecting_leaves_no_hook_behind() -> None:
    model = tiny_model("llama")
    dissect(model)
    assert hooks(model) == 0
    model.lm_head.weight.data.zero_()
    with pytest.raises(UsageError):
        dissect(model)
    assert hooks(model) == 0


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize(
    "model",
    [
        lambda: T5ForConditionalGeneration(
            T5Config(**SMALL_SEQ2SEQ, d_kv=8, d_ff=16, num_layers=2, num_heads=2)
        ),
        lambda: BartForConditionalGeneration(
            BartConfig(
                **SMALL_SEQ2SEQ,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=16,
                decoder_ffn_dim=16,
            )
        ),
    ],
    ids=["T5", "BART"],
)
def test_encoder_decoder_models_are_refused_by_name(model: Any) -> None:
    seq2seq = model()
    with pytest.raises(UsageError, match=f"{type(seq2seq).__name__} is an encoder-decoder model"):
        dissect(seq2seq)


@pytest.mark.parametrize(
    "config",
    [
        MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, state_size=4),
        Mamba2Config(
            vocab_size=50, hidden_size=16, num_hidden_layers=2, num_heads=4, head_dim=8, n_groups=1
        ),
        RwkvConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2),
    ],
    ids=["Mamba", "Mamba2", "RWKV"],
)
def test_models_without_attention_are_refused_by_name(config: Any) -> None:
    model = AutoModelForCausalLM.from_config(config)
    with pytest.raises(UsageError, match=f"{type(model).__name__} has no attention heads"):
        dissect(model)


def test_a_model_that_looks_ahead_is_refused_by_name() -> None:
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
    )
    torch.manual_seed(0)
    model = randomized(BertLMHeadModel(config)).eval()
    with pytest.raises(UsageError, match=r"BertLMHeadModel: .* the model is not causal"):
        dissect(model)


def test_a_model_whose_states_do_not_reach_the_logits_is_refused_by_name() -> None:
    model = tiny_model("llama")
    model.model.norm.weight.data.zero_()
    with pytest.raises(UsageError, match="LlamaForCausalLM: editing the state after layer 1"):
        dissect(model)


class _Backwards(nn.ModuleList):
    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return list(found)[::-1] if isinstance(index, slice) else found


def _backwards(model: PreTrainedModel) -> None:
    model.model.layers = _Backwards(model.model.layers)


def _twice(model: PreTrainedModel) -> None:
    layers = list(model.model.layers)
    model.model.layers = nn.ModuleList([layers[0], layers[0], *layers[2:]])


@pytest.mark.parametrize("damage", [_backwards, _twice], ids=["out of order", "a layer twice"])
def test_layers_that_are_not_called_once_each_in_order_are_refused(damage: Any) -> None:
    model = tiny_model("llama")
    damage(model)
    with pytest.raises(UsageError) as caught:
        dissect(model)
    message = str(caught.value)
    assert "LlamaForCausalLM: decoder layers not found" in message
    assert "each called once, in order" in message
    assert "lists of that length: model.layers" in message


def test_a_configuration_that_counts_other_layers_is_refused() -> None:
    model = tiny_model("gpt2")
    model.config.n_layer = LAYERS + 1
    with pytest.raises(UsageError, match=r"list of 5 modules.*lists of that length: none"):
        dissect(model)


def test_a_list_of_as_many_other_modules_is_not_taken_for_the_layers() -> None:
    model = tiny_model("llama")
    model.decoys = nn.ModuleList([nn.Identity() for _ in range(LAYERS)])
    assert list(dissect(model).layers) == list(model.model.layers)


@pytest.mark.parametrize(
    ("family", "settings", "bare"),
    [
        ("llama", {}, True),
        ("phi", {}, True),  # its head has a bias of its own
        ("gemma2", {"final_logit_softcapping": 5.0}, False),
        ("gemma2", {"final_logit_softcapping": None}, True),
        ("cohere", {"logit_scale": 0.5}, False),
        ("granite", {"logits_scaling": 2.0}, False),
    ],
)
def test_a_head_is_bare_where_nothing_follows_it(
    family: str, settings: dict[str, Any], bare: bool
) -> None:
    assert dissect(tiny_model(family, **settings)).bare_head is bare


def test_hidden_states_are_read_and_replaced_alone_or_first_in_a_tuple() -> None:
    states, other, new = torch.zeros(1, 2, 3), object(), torch.ones(1, 2, 3)
    assert hidden_of(states) is states
    assert hidden_of((states, other)) is states
    assert with_hidden(states, new) is new
    assert with_hidden((states, other), new) == (new, other)
