"""What a family may do otherwise in generation, and what is refused when it is asked for by name.

The battery that every family passes stands beside the part it tries: test_anatomy, test_capture,
test_inject, test_one_pass, test_prefix, test_sweep.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.inject import Edit, Injection, inject
from tests.models import FAMILIES, save_tiny, tiny_config, tiny_model, tiny_tokenizer
from tests.steering import oracle
from tests.steering.oracle import random_vectors, token_rows

ROWS = token_rows(11, 4, 8)
CUES = [10, 2, 5]
WHERE = [2, 0, 3]
VECTORS = random_vectors(len(ROWS), 32)
NEW = 4


def generated(
    model: PreTrainedModel, rows: list[list[int]], edits: list[Edit] | None, **settings: Any
) -> list[list[int]]:
    """New tokens of rows padded on the left, by transformers' own generation."""
    width = max(map(len, rows))
    ids = torch.tensor([[7] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    anatomy = dissect(model)
    with inject(anatomy, edits or [], len(rows)):
        found: Tensor = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=NEW,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            **settings,
        )
    return found[:, width:].tolist()


def edits_of(rows: list[list[int]], strength: float | None = None) -> list[Edit]:
    width = max(map(len, rows))
    return [
        Edit(n, CUES[n] + width - len(row), Injection(WHERE[n], VECTORS[n], strength))
        for n, row in enumerate(rows)
    ]


def test_families_hand_on_hidden_states_alone_and_in_tuples() -> None:
    kinds = set()
    for family in FAMILIES:
        anatomy = dissect(tiny_model(family))
        anatomy.layers[0].register_forward_hook(lambda _, __, output: kinds.add(type(output)))
        anatomy.model(input_ids=torch.tensor([[5, 6]]), use_cache=False)
    assert kinds == {Tensor, tuple}


def test_some_families_share_keys_among_heads_and_some_have_wider_heads_than_their_states() -> None:
    grouped, wide = set(), set()
    for family in FAMILIES:
        config = tiny_config(family)
        heads, width = config.num_attention_heads, config.hidden_size
        if getattr(config, "num_key_value_heads", None) not in (None, heads):
            grouped.add(family)
        if getattr(config, "head_dim", None) not in (None, width // heads):
            wide.add(family)
    assert {"llama", "mistral", "gemma3_text"} <= grouped
    assert {"qwen3", "gemma", "gemma2", "gemma3_text"} <= wide


@pytest.mark.parametrize("strength", [None, 1.5])
def test_generation_without_a_cache_edits_the_prompt_again_and_nothing_else(
    strength: float | None, anatomy: Anatomy, family: str
) -> None:
    layers = oracle.decoder_layers(family, anatomy.model)
    found = generated(anatomy.model, ROWS, edits_of(ROWS, strength), use_cache=False)
    for n, row in enumerate(ROWS):
        vector = VECTORS[n]

        def change(state: Tensor, vector: Tensor = vector) -> Tensor:
            return vector if strength is None else state + strength * vector

        expected = oracle.greedy(anatomy.model, layers[WHERE[n]], row, CUES[n], change, NEW)
        assert found[n] == expected


def test_beams_carry_the_injection_of_their_row(anatomy: Anatomy) -> None:
    rows = ROWS[:2]
    beams = {"num_beams": 3, "num_return_sequences": 2}
    together = generated(anatomy.model, rows, edits_of(rows), **beams)
    assert generated(anatomy.model, rows, edits_of(rows), **beams, use_cache=False) == together
    alone = []
    for n, row in enumerate(rows):
        own = [Edit(0, CUES[n], Injection(WHERE[n], VECTORS[n]))]
        alone += generated(anatomy.model, [row], own, **beams)
    assert together == alone
    assert together != generated(anatomy.model, rows, None, **beams)


# ---- refused by name -----------------------------------------------------------------------------


def saved(folder: Path, model: PreTrainedModel) -> str:
    model.save_pretrained(folder)
    tiny_tokenizer("split").save_pretrained(folder)
    return str(folder)


def t5(vocabulary: int) -> PreTrainedModel:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(vocab_size=vocabulary, **sizes))


def mamba(vocabulary: int) -> PreTrainedModel:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}
    return MambaForCausalLM(MambaConfig(vocab_size=vocabulary, **sizes))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (t5, "T5ForConditionalGeneration is an encoder-decoder model"),
        (mamba, "MambaForCausalLM has no attention heads"),
    ],
)
def test_a_model_of_another_kind_is_refused_by_name_and_runs_plain(
    make: Any, said: str, tmp_path: Path
) -> None:
    folder = saved(tmp_path, make(len(tiny_tokenizer("split"))))
    with pytest.raises(UsageError, match=said) as error:
        TaskVectorLM(pretrained=folder)
    assert "\n" not in str(error.value)
    assert TaskVectorLM(pretrained=folder, method="none").model is not None


# ---- adapters ------------------------------------------------------------------------------------


@pytest.fixture
def adapted(tmp_path: Path) -> Any:
    """Saves a tiny model and an adapter of some kind for it: makes their two folders."""
    peft = pytest.importorskip("peft")

    def make(kind: str, **settings: Any) -> tuple[str, str]:
        folder, adapter = save_tiny(tmp_path / "model"), str(tmp_path / "adapter")
        model = AutoModelForCausalLM.from_pretrained(folder)
        config = getattr(peft, kind)(task_type="CAUSAL_LM", **settings)
        wrapped = peft.get_peft_model(model, config)
        torch.manual_seed(0)
        for parameter in wrapped.parameters():
            if parameter.requires_grad:
                torch.nn.init.normal_(parameter, std=0.2)
        wrapped.save_pretrained(adapter)
        return str(folder), adapter

    return make


def test_a_model_with_adapters_is_steered_as_the_one_they_are_merged_into(
    adapted: Any, tmp_path: Path
) -> None:
    folder, adapter = adapted("LoraConfig", r=2, target_modules=["q_proj", "down_proj"])
    lm = TaskVectorLM(pretrained=folder, peft=adapter)
    merged = TaskVectorLM(pretrained=folder, peft=adapter, method="none").model.merge_and_unload()
    unadapted = TaskVectorLM(pretrained=folder, method="none").model
    # The second row's cue is its first token: a further token must not be taken for it.
    rows, cues = [[token % 256 for token in row] for row in (ROWS[0], ROWS[2])], [10, 0]
    width = max(map(len, rows))
    edits = [
        Edit(n, cues[n] + width - len(row), Injection(1, VECTORS[n])) for n, row in enumerate(rows)
    ]
    found = generated(lm.model, rows, edits)
    assert found == generated(merged, rows, edits)
    assert found != generated(merged, rows, None)
    assert found != generated(unadapted, rows, edits)


def test_an_adapter_of_virtual_tokens_is_refused(adapted: Any) -> None:
    folder, adapter = adapted("PromptTuningConfig", num_virtual_tokens=3)
    with pytest.raises(UsageError, match=r"virtual tokens before the prompt"):
        TaskVectorLM(pretrained=folder, peft=adapter)
