"""Weights and settings, compared with the models the GGUF files were made from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel

from harness_ext.packaged_models.convert import convert
from tests.packaged_models import gguf_models


@pytest.fixture(params=[gguf_models.tiny_llama, gguf_models.tiny_gemma])
def converted(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[PreTrainedModel, Path]:
    """A model, and the folder its GGUF file was converted to."""
    make: Callable[[], PreTrainedModel] = request.param
    original = make()
    folder = tmp_path / "converted"
    folder.mkdir()
    convert(gguf_models.write_gguf(original, tmp_path / "tiny.gguf"), folder)
    return original, folder


def test_the_converted_model_computes_the_logits_of_the_original(
    converted: tuple[PreTrainedModel, Path],
) -> None:
    original, folder = converted
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.randint(original.config.vocab_size, (2, 24), generator=torch.manual_seed(1))
    with torch.no_grad():
        expected = original(ids).logits
        torch.testing.assert_close(loaded(ids).logits, expected, rtol=0, atol=1e-5)
    assert expected.std() > 0.1


def test_the_converted_model_is_loaded_in_float32_without_being_asked(
    converted: tuple[PreTrainedModel, Path],
) -> None:
    loaded = AutoModelForCausalLM.from_pretrained(converted[1], dtype="auto")
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}


def test_settings_agree_in_all_files(converted: tuple[PreTrainedModel, Path]) -> None:
    original, folder = converted
    config = json.loads((folder / "config.json").read_text())
    generation = GenerationConfig.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for role in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert config[role] == getattr(generation, role) == getattr(tokenizer, role), role
    assert tokenizer.model_max_length == original.config.max_position_embeddings
    assert config["rms_norm_eps"] == original.config.rms_norm_eps
    assert len(tokenizer) == original.config.vocab_size


def test_a_tensor_that_has_no_place_in_the_model_is_an_error(tmp_path: Path) -> None:
    extra = {"blk.0.attn_q.bias": np.zeros(32, dtype=np.float32)}
    file = gguf_models.write_gguf(gguf_models.tiny_llama(), tmp_path / "tiny.gguf", extra)
    (tmp_path / "converted").mkdir()
    with pytest.raises(NotImplementedError, match=r"blk\.0\.attn_q\.bias"):
        convert(file, tmp_path / "converted")
