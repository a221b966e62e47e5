"""What tells one model and tokenizer from another, whatever their folders are called."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

SAMPLE = "Example: Ab 123 → naïve\n\n 4 x\t中!"
"""Text whose ids tell apart tokenizers of one vocabulary that cut it differently."""


def tensor_hash(tensor: Tensor) -> str:
    """SHA-256 of a tensor's bytes, dtype and shape, as hex digits."""
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


def fingerprint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Architecture, hash of the unembedding, hash of the tokenizer."""
    return {
        "architecture": type(model).__name__,
        "unembedding_sha256": tensor_hash(model.get_output_embeddings().weight),
        "tokenizer_sha256": tokenizer_hash(tokenizer),
    }
