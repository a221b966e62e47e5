"""Vector files for tests: headers, and files written without the product's own code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from harness_ext.steering.vector_file import Header, document_id

FINGERPRINT = {
    "architecture": "LlamaForCausalLM",
    "unembedding_sha256": "a" * 64,
    "tokenizer_sha256": "b" * 64,
}
KEYS = ("first", "second", "third")


def header(**settings: Any) -> Header:
    """A header of three vectors per document; settings change it."""
    fields: dict[str, Any] = {
        "method": "tv_m",
        "task": "forward_upper",
        "template": {"doc_to_text": "Example: {{x}} →", "cue": "→", "chat": None},
        "layer": 2,
        "mode": "replace",
        "strength": None,
        "shots": 1,
        "demos": 10,
        "queries": 1,
        "average": 0,
        "dev": 50,
        "seed": -3,
        "model": "packaged:smollm2-135m",
        "revision": "main",
        "dtype": "float32",
        "fingerprint": FINGERPRINT,
        "documents": [document_id(key) for key in KEYS],
        "record": {"development_accuracy": 0.86, "warning": None},
    }
    return Header(**{**fields, **settings})


def vectors(items: int = 3, cues: int = 2, width: int = 4) -> Tensor:
    """Random float32 vectors [items, cues, width]."""
    return torch.randn(items, cues, width, generator=torch.Generator().manual_seed(0))


def write(path: Path, content: Any, tensor: Tensor, name: str = "vectors") -> Path:
    """A safetensors file with `content` as our metadata (as JSON unless it is a text)."""
    text = content if isinstance(content, str) else json.dumps(content)
    save_file({name: tensor}, path, metadata={"taskvec": text})
    return path


def sealed(content: dict[str, Any], tensor: Tensor) -> dict[str, Any]:
    """The content with the checksum that fits it: keys in order, no blanks, then the numbers."""
    signed = {name: content[name] for name in ("format", "header", "shape")}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"))
    numbers = tensor.flatten().numpy().astype("<f4").tobytes()
    return {**signed, "sha256": hashlib.sha256(text.encode() + numbers).hexdigest()}
