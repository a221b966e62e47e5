"""Tiny GGUF models, and wheels that hold them, made in code.

Weights go into the file in the layout llama.cpp's own converter gives them, written here on its
own, so that reading them back is compared with something independent.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from harness_ext.packaged_models import PackagedModel, Wheel
from tests.packaged_models.reference_tokenizers import byte_alphabet

TEMPLATE = "{% for message in messages %}<start>{{ message['content'] }}{% endfor %}"


def tiny_llama() -> PreTrainedModel:
    """A random Llama with grouped heads whose output embedding is the input embedding."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(byte_level_fields()["tokenizer.ggml.tokens"]),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )
    return _randomised(LlamaForCausalLM(config))


def tiny_gemma() -> PreTrainedModel:
    """A random Gemma 3 with a window shorter than a test's prompt, and its seventh layer local."""
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=len(sentencepiece_fields()["tokenizer.ggml.tokens"]),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=7,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=16,
        query_pre_attn_scalar=16,
        max_position_embeddings=128,
        sliding_window=4,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        },
    )
    return _randomised(Gemma3ForCausalLM(config))


def byte_level_fields() -> dict[str, Any]:
    """Tokenizer metadata as SmolLM2's: all bytes, a few merges, three control tokens."""
    merges = ["Ċ Ċ", "Ġ t", "h e", "Ġt he", "Ġ Ġ", "â Ĩ", "âĨ Ĵ", "Ġ âĨĴ", "a a", "aa a"]
    joined = [merge.replace(" ", "") for merge in merges]
    control = ["<unknown>", "<start>", "<end>"]
    tokens = [*control, *byte_alphabet(), *joined]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(control) + [1] * (len(tokens) - len(control)),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def sentencepiece_fields() -> dict[str, Any]:
    """Tokenizer metadata as Gemma 3's: pieces with scores, bytes, control and defined tokens."""
    control = ["<pad>", "<eos>", "<bos>", "<unk>"]
    defined = ["\n", "\n\n", "\n\n\n", "  ", "   ", "\t", "<b>", "</b>"]
    in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["▁t", "he", "▁the", "aa", "aaa", "ab", "ba", "aba", "bab", "▁→", "▁a"]
    pieces += list("▁abcdehilmnoprstxE:→é3'<>/")
    tokens = [*control, *defined, *in_bytes, *pieces]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": (
            [3] * len(control) + [4] * len(defined) + [6] * len(in_bytes) + [1] * len(pieces)
        ),
        "tokenizer.ggml.scores": (
            [-1000.0] * (len(control) + len(defined))
            + [0.0] * len(in_bytes)
            + [-float(rank) for rank in range(len(pieces))]
        ),
        "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
    }


def write_gguf(model: PreTrainedModel, file: Path, extra: Mapping[str, Any] | None = None) -> Path:
    """Write a tiny model as a GGUF file, with ``extra`` tensors beside its own."""
    config, weights = model.config, model.model.state_dict()
    llama = config.model_type == "llama"
    family = "llama" if llama else "gemma3"
    writer = gguf.GGUFWriter(file, family)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if llama:
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_rope_dimension_count(config.head_dim)
    else:
        writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_sliding_window(config.sliding_window)
    for key, value in (byte_level_fields() if llama else sentencepiece_fields()).items():
        _add_field(writer, key, value)
    names = gguf.get_tensor_name_map(
        gguf.MODEL_ARCH.LLAMA if llama else gguf.MODEL_ARCH.GEMMA3, config.num_hidden_layers
    )
    for name, weight in weights.items():
        values = weight.numpy()
        if llama and ("q_proj" in name or "k_proj" in name):
            halves = values.reshape(-1, 2, config.head_dim // 2, config.hidden_size)
            values = halves.transpose(0, 2, 1, 3).reshape(values.shape)
        if not llama and "norm" in name:
            values = values + 1
        target = names.get_name(f"model.{name}", try_suffixes=(".weight",))
        writer.add_tensor(target, np.ascontiguousarray(values))
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def write_wheels(gguf_file: Path, folder: Path, parts: int = 1) -> PackagedModel:
    """Put a GGUF file, cut into parts, into wheels in ``folder``, and describe them."""
    content = gguf_file.read_bytes()
    size = -(-len(content) // parts)
    wheels = [
        _write_wheel(folder, number, content[number * size : (number + 1) * size])
        for number in range(parts)
    ]
    return PackagedModel(
        name="tiny",
        description="a tiny model",
        licence="MIT",
        terms=None,
        wheels=tuple(wheels),
        gguf_sha256=hashlib.sha256(content).hexdigest(),
    )


def _write_wheel(folder: Path, number: int, content: bytes) -> Wheel:
    package, version = f"tiny_model_part{number}", "1.0"
    file = folder / f"{package}-{version}-py3-none-any.whl"
    information = f"{package}-{version}.dist-info"
    files: Sequence[tuple[str, str | bytes]] = [
        (f"{package}/model.gguf", content),
        (
            f"{information}/METADATA",
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
            "Requires-Dist: a-dependency-that-does-not-exist\n",
        ),
        (f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        (f"{information}/RECORD", ""),
    ]
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in files:
            archive.writestr(name, data)
    return Wheel(
        project=package.replace("_", "-"),
        version=version,
        filename=file.name,
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        bytes=file.stat().st_size,
        member=f"{package}/model.gguf",
    )


def _add_field(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _randomised(model: PreTrainedModel) -> PreTrainedModel:
    """Weights large enough for every part, norms included, to leave its mark on the logits."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()
