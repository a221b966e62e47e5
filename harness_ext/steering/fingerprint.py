"""What tells one model and tokenizer from another, whatever their folders are called."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

SAMPLE = "Example: Ab 123 → naïve\n\n 4 x\t中!"
"""Text whose ids tell apart tokenizers of one vocabulary that cut it differently."""


_SAMPLED = 256


def tensor_hash(tensor: Tensor) -> str:
    """SHA-256 of a tensor's bytes, dtype and shape (any shape), as hex digits."""
    flat = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{flat.dtype} {tuple(flat.shape)}".encode())
    digest.update(flat.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of a tokenizer's vocabulary, special tokens and ids of SAMPLE, as hex digits."""
    entries = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = sorted(tokenizer.special_tokens_map.items())
    text = repr((entries, special, tokenizer.encode(SAMPLE)))
    return hashlib.sha256(text.encode()).hexdigest()


def weights_hash(model: PreTrainedModel) -> str:
    """SHA-256 over a sample of every parameter, evenly spread, as hex digits.

    Tells a model from one fine-tuned or adapted out of it, without reading all of it.
    """
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        digest.update(f"{name} {parameter.dtype} {shape}".encode())
        if not parameter.is_meta:  # such are kept elsewhere, and come in when they are used
            flat = parameter.detach().reshape(-1)
            digest.update(tensor_hash(flat[:: max(1, len(flat) // _SAMPLED)]).encode())
    return digest.hexdigest()


def fingerprint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Architecture, hashes of the unembedding, of all weights (sampled), and of the tokenizer."""
    return {
        "architecture": type(model).__name__,
        "unembedding_sha256": tensor_hash(model.get_output_embeddings().weight),
        "weights_sha256": weights_hash(model),
        "tokenizer_sha256": tokenizer_hash(tokenizer),
    }
