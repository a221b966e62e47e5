"""From a GGUF file to a folder that transformers loads as it is.

Values are written as float32: a quantised weight is a small integer times a 16-bit scale, plus an
offset, which readers of the format compute in float32; a narrower type would round it once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from . import tokenizer

if TYPE_CHECKING:
    from gguf import ReaderTensor
    from transformers import PreTrainedConfig

Array = np.ndarray[Any, np.dtype[np.float32]]

Undo = Callable[[str, Array, "PreTrainedConfig"], Array]
"""Given a GGUF tensor's name and values and the model's configuration, the values to write."""

_SHARED_PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
}
_LLAMA_PARTS = {**_SHARED_PARTS, "ffn_norm": "post_attention_layernorm"}
_GEMMA_PARTS = {
    **_SHARED_PARTS,
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def convert(gguf_file: Path, folder: Path) -> None:
    """Write configuration, weights, tokenizer and generation settings of a GGUF model to a folder.

    Args:
        gguf_file: a model of the Llama or Gemma 3 family whose output embedding is the input one.
        folder: an existing, empty folder.

    Raises:
        NotImplementedError: another family, tokenizer, or a tensor this module does not know.
    """
    from gguf import GGUFReader
    from safetensors.numpy import save_file
    from transformers import GenerationConfig

    reader = GGUFReader(gguf_file)
    fields = {key: field.contents() for key, field in reader.fields.items()}
    family = fields["general.architecture"]
    parts: Mapping[str, str]
    undo: Undo
    if family == "llama":
        config, parts, undo = _llama_config(fields), _LLAMA_PARTS, _undo_llama
    elif family == "gemma3":
        config, parts, undo = _gemma_config(fields), _GEMMA_PARTS, _undo_gemma
    else:
        raise NotImplementedError(f"no conversion for GGUF architecture {family!r}")

    config.save_pretrained(folder)
    GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    ).save_pretrained(folder)
    tokenizer.build(fields, max_length=config.max_position_embeddings).save_pretrained(folder)
    weights_file = folder / "model.safetensors"
    save_file(_weights(reader.tensors, config, parts, undo), weights_file, {"format": "pt"})
    # safetensors makes it private to the user; a shared cache needs the usual permissions.
    weights_file.chmod((folder / "config.json").stat().st_mode)


def _weights(
    tensors: list[ReaderTensor],
    config: PreTrainedConfig,
    parts: Mapping[str, str],
    undo: Undo,
) -> dict[str, Array]:
    """All weights, dequantised, under the names and in the layout transformers uses."""
    from gguf import dequantize

    weights: dict[str, Array] = {}
    for tensor in tqdm(tensors, desc="converting", unit="tensor", disable=None):
        name = _name(tensor.name, parts)
        values = dequantize(tensor.data, tensor.tensor_type)
        weights[name] = np.ascontiguousarray(undo(tensor.name, values, config))
    return weights


def _name(name: str, parts: Mapping[str, str]) -> str:
    """transformers' name of a GGUF tensor."""
    match name.removesuffix(".weight").split("."):
        case ["token_embd"]:
            return "model.embed_tokens.weight"
        case ["output_norm"]:
            return "model.norm.weight"
        case ["blk", layer, part] if part in parts:
            return f"model.layers.{layer}.{parts[part]}.weight"
        case _:
            raise NotImplementedError(f"no place for GGUF tensor {name!r}")


def _undo_llama(name: str, values: Array, config: PreTrainedConfig) -> Array:
    """Undo llama.cpp's interleaving of the two rotary halves in query and key rows."""
    if ".attn_q." in name:
        heads = config.num_attention_heads
    elif ".attn_k." in name:
        heads = config.num_key_value_heads
    else:
        return values
    rows, columns = values.shape
    pairs = values.reshape(heads, rows // heads // 2, 2, columns)
    undone: Array = pairs.swapaxes(1, 2).reshape(rows, columns)
    return undone


def _undo_gemma(name: str, values: Array, _config: PreTrainedConfig) -> Array:
    """Undo the 1 that llama.cpp adds to norm weights: Gemma multiplies by one plus the weight."""
    if not name.endswith("_norm.weight"):
        return values
    undone: Array = values - np.float32(1)
    return undone


def _llama_config(fields: Mapping[str, Any]) -> PreTrainedConfig:
    from transformers import LlamaConfig

    return LlamaConfig(
        **_common_config("llama", fields),
        architectures=["LlamaForCausalLM"],
        head_dim=fields["llama.rope.dimension_count"],
        rope_parameters={
            "rope_type": "default",
            "rope_theta": _short(fields["llama.rope.freq_base"]),
        },
    )


def _gemma_config(fields: Mapping[str, Any]) -> PreTrainedConfig:
    """As the file says; what it leaves out is the same in every text model of Gemma 3.

    These are the local rotary base 10,000 and the layer pattern, five with a sliding window, then
    one without. Queries are scaled by the head size (the 27B model alone differs there).
    """
    from transformers import Gemma3TextConfig

    head_dim = fields["gemma3.attention.key_length"]
    layers = range(fields["gemma3.block_count"])
    return Gemma3TextConfig(
        **_common_config("gemma3", fields),
        architectures=["Gemma3ForCausalLM"],
        head_dim=head_dim,
        query_pre_attn_scalar=head_dim,
        sliding_window=fields["gemma3.attention.sliding_window"],
        layer_types=[
            "full_attention" if layer % 6 == 5 else "sliding_attention" for layer in layers
        ],
        rope_parameters={
            "full_attention": {
                "rope_type": "default",
                "rope_theta": _short(fields["gemma3.rope.freq_base"]),
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        },
    )


def _common_config(family: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": fields[f"{family}.embedding_length"],
        "intermediate_size": fields[f"{family}.feed_forward_length"],
        "num_hidden_layers": fields[f"{family}.block_count"],
        "num_attention_heads": fields[f"{family}.attention.head_count"],
        "num_key_value_heads": fields[f"{family}.attention.head_count_kv"],
        "max_position_embeddings": fields[f"{family}.context_length"],
        "rms_norm_eps": _short(fields[f"{family}.attention.layer_norm_rms_epsilon"]),
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _short(value: float) -> float:
    """The shortest decimal that is this float32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))
