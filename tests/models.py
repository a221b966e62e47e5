"""Tiny random models of many decoder families and tiny tokenizers, built in code.

`tiny_model(family)` is any of FAMILIES, in float32 and evaluation mode, its weights a function of
the family and the seed alone, large enough that logits differ clearly from token to token.
`tiny_tokenizer(kind)` is any of TOKENIZERS. `save_tiny` writes both into a folder that lm-eval's
`hf` loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, WordLevel
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

LAYERS = 4
VOCABULARY = 320

# What most families share: 4 heads on 2 key-value heads, and less than the heads' width in all.
_BASE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}
_GROUPED = {**_BASE, "num_key_value_heads": 2}
_WIDE = {**_GROUPED, "head_dim": 16}
# Every other layer sees 5 tokens back: less than any prompt of the tests.
_SLIDING = {
    "sliding_window": 5,
    "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
}
_EXPERTS = {**_GROUPED, "num_experts_per_tok": 2}
_GPT2 = {"n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": 512}

FAMILIES: Mapping[str, dict[str, Any]] = {
    "gpt2": _GPT2,
    "gpt_bigcode": {**_GPT2, "multi_query": True},
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": LAYERS,
        "num_heads": 4,
        "attention_types": [[["global", "local"], LAYERS // 2]],
        "window_size": 5,
        "max_position_embeddings": 512,
    },
    "gptj": {**_GPT2, "rotary_dim": 4},
    "codegen": {**_GPT2, "n_ctx": 512, "rotary_dim": 4},
    "gpt_neox": _BASE,
    "gpt_neox_sequential": {**_BASE, "use_parallel_residual": False},
    "opt": {**_BASE, "ffn_dim": 48, "word_embed_proj_dim": 32},
    # As the smallest OPT: embeddings of another width, norms behind the blocks.
    "opt_projected": {
        **_BASE,
        "ffn_dim": 48,
        "word_embed_proj_dim": 16,
        "do_layer_norm_before": False,
    },
    "bloom": {"hidden_size": 32, "n_layer": LAYERS, "n_head": 4},
    "falcon": {"hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 4},
    "falcon_alibi": {
        "hidden_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "alibi": True,
        "multi_query": False,
    },
    "falcon_grouped": {
        "hidden_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "new_decoder_architecture": True,
        "num_kv_heads": 2,
    },
    "mpt": {"d_model": 32, "n_layers": LAYERS, "n_heads": 4, "max_seq_len": 512},
    "llama": _GROUPED,
    "llama4_text": {
        **_GROUPED,
        "head_dim": 8,
        "intermediate_size_mlp": 48,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
    },
    "mistral": {**_GROUPED, "sliding_window": 5},
    "mixtral": {**_EXPERTS, "num_local_experts": 4, "sliding_window": None},
    "qwen2": _GROUPED,
    "qwen2_moe": {
        **_EXPERTS,
        "num_experts": 4,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 24,
    },
    "qwen3": _WIDE,
    "qwen3_moe": {**_EXPERTS, "head_dim": 16, "num_experts": 4, "moe_intermediate_size": 24},
    "gemma": _WIDE,
    "gemma2": {**_WIDE, **_SLIDING, "query_pre_attn_scalar": 16},
    "gemma3_text": {**_WIDE, **_SLIDING, "query_pre_attn_scalar": 16},
    "phi": _GROUPED,
    "phi3": {**_GROUPED, "pad_token_id": 0},
    "stablelm": _GROUPED,
    "stablelm_parallel": {**_GROUPED, "use_parallel_residual": True, "qk_layernorm": True},
    "olmo": _GROUPED,
    "olmo2": _GROUPED,
    "olmoe": {**_EXPERTS, "num_experts": 4},
    "granite": {**_GROUPED, "attention_multiplier": 0.35, "residual_multiplier": 0.5},
    "cohere": {**_GROUPED, "logit_scale": 1.0},
    "cohere2": {**_GROUPED, **_SLIDING, "logit_scale": 1.0},
    "starcoder2": _GROUPED,
    "smollm3": {**_GROUPED, "pad_token_id": 0},
    # Keys and values from a latent state; their heads differ in width.
    "deepseek_v3": {
        **_BASE,
        "num_key_value_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 12,
        "n_routed_experts": 4,
        "moe_intermediate_size": 16,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
    },
    "gpt_oss": {
        **_EXPERTS,
        **_SLIDING,
        "head_dim": 16,
        "num_local_experts": 4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
}
"""Decoder families and the settings that make them tiny; the key is the family's `model_type`,
but for the second and third kinds of one family (see `_MODEL_TYPE`)."""

RECURRENT: Mapping[str, dict[str, Any]] = {
    "qwen3_next": {
        **_EXPERTS,
        "head_dim": 16,
        "num_experts": 4,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 24,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"] * (LAYERS // 2),
    },
    "falcon_h1": {
        **_GROUPED,
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "mamba_d_ssm": 64,
        "mamba_d_state": 8,
        "mamba_chunk_size": 8,
    },
}
"""Families with layers that keep a state beside keys and values; `tiny_model` builds them too."""

_MODEL_TYPE = {
    "falcon_alibi": "falcon",
    "falcon_grouped": "falcon",
    "gpt_neox_sequential": "gpt_neox",
    "opt_projected": "opt",
    "stablelm_parallel": "stablelm",
}


def tiny_config(family: str, vocabulary: int = VOCABULARY, **settings: Any) -> Any:
    """The family's configuration: 4 layers of width 32, changed by `settings`."""
    own = {"bos_token_id": 1, "eos_token_id": 2, "vocab_size": vocabulary}
    known = {**FAMILIES, **RECURRENT}[family]
    return CONFIG_MAPPING[_MODEL_TYPE.get(family, family)](**{**own, **known, **settings})


def tiny_model(
    family: str, vocabulary: int = VOCABULARY, seed: int = 0, **settings: Any
) -> PreTrainedModel:
    """A random causal language model of the family, in float32 and evaluation mode.

    `settings` change its configuration. Weights are drawn so that states keep their size from
    layer to layer, biases and norms included: an edit anywhere shows in the logits.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = tiny_config(family, vocabulary, **settings)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        return randomized(model).eval()


def randomized(model: PreTrainedModel) -> PreTrainedModel:
    """The model with every parameter drawn anew from torch's generator."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


TOKENIZERS = {
    "split": "byte-level; the arrow is three tokens, whatever stands around it",
    "joined": "byte-level; space and arrow are one token",
    "after": "byte-level; the arrow and a space or newline that follows are one token",
    "before": "byte-level; a letter, the space and the arrow are one token",
    "across": "byte-level; the arrow, a space and the letter x after it are one token",
    "words": "whole words, without their spaces; a BOS is put in front",
    "spm": "SentencePiece-like; arrow by byte fallback, spaces before words, a BOS in front",
}
"""Kinds of tokenizers, and what each does to `→`. In byte-level kinds id 0 is a real token (`!`)
and the special tokens come last."""

_ARROW = "âĨĴ"  # the three bytes of → in the byte-level alphabet
_BYTE_MERGES: Mapping[str, list[tuple[str, str]]] = {
    "split": [("Ġ", "E"), ("x", "a"), ("xa", "m")],
    "joined": [("â", "Ĩ"), ("âĨ", "Ĵ"), ("Ġ", _ARROW)],
    "after": [("â", "Ĩ"), ("âĨ", "Ĵ"), (_ARROW, "Ċ"), (_ARROW, "Ġ")],
    "before": [
        ("â", "Ĩ"),
        ("âĨ", "Ĵ"),
        ("Ġ", _ARROW),
        *((letter, f"Ġ{_ARROW}") for letter in "abcdefghijklmnopqrstuvwxyz"),
    ],
    "across": [("â", "Ĩ"), ("âĨ", "Ĵ"), (_ARROW, "Ġ"), (f"{_ARROW}Ġ", "x")],
}


def tiny_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """The tokenizer of that kind (see TOKENIZERS), with BOS, EOS and padding tokens."""
    if kind == "words":
        backend = _words()
    elif kind == "spm":
        backend = _sentencepiece_like()
    else:
        backend = _byte_level(_BYTE_MERGES[kind])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def save_tiny(
    folder: Path, family: str = "llama", tokenizer: str = "split", **settings: Any
) -> Path:
    """Write a model of the family and a tokenizer of the kind into `folder`, and return it.

    The model's vocabulary and special tokens are the tokenizer's; `settings` change its
    configuration.
    """
    fast = tiny_tokenizer(tokenizer)
    special = {f"{name}_token_id": getattr(fast, f"{name}_token_id") for name in ("bos", "eos")}
    model = tiny_model(family, len(fast), **{**special, **settings})
    model.generation_config.pad_token_id = fast.pad_token_id
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def _byte_level(merges: list[tuple[str, str]]) -> Tokenizer:
    # Bytes in their printable order, so that "!" has id 0, as in GPT-2.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, *(left + right for left, right in merges)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(BPE(vocabulary, merges))
    # No splitting into words first: merges may cross their borders.
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    backend.decoder = decoders.ByteLevel()
    return backend


_WORDS = """
    Example Question Answer Input Output one two three four five six seven eight nine ten
    cat dog bird fish red green blue hot cold big small left right good bad day night yes no
    → -> : . , ? ! - > =
"""


def _words() -> Tokenizer:
    tokens = ["<pad>", "<s>", "</s>", "<unk>", *_WORDS.split()]
    backend = Tokenizer(
        WordLevel({token: number for number, token in enumerate(tokens)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    backend.add_special_tokens([AddedToken(token, special=True) for token in tokens[:4]])
    return backend


def _sentencepiece_like() -> Tokenizer:
    specials = ["<pad>", "<s>", "</s>", "<unk>"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["▁", *(chr(code) for code in range(33, 127)), "▁E", "xa", "▁a", "▁b", "an"]
    tokens = [*specials, *byte_tokens, *pieces]
    merges = [("▁", "E"), ("x", "a"), ("▁", "a"), ("▁", "b"), ("a", "n")]
    backend = Tokenizer(
        BPE(
            {token: number for number, token in enumerate(tokens)},
            merges,
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens([AddedToken(token, special=True) for token in specials])
    return backend
