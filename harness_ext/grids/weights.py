"""What tells a model's files from others that stand, or stood, in the same place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness_ext import packaged_models

_ARGUMENTS = ("pretrained", "peft", "delta", "tokenizer")
_BLOCKS, _BLOCK = 64, 4096


def weights(arguments: Mapping[str, Any]) -> dict[str, str]:
    """A SHA-256 for each model argument whose files are known: of packaged models and folders.

    A folder is read in parts, evenly spread over each of its files: fine-tuning or another dtype
    changes them all. What a hub holds is known by its name and revision alone.
    """
    found = {}
    for name in _ARGUMENTS:
        value = arguments.get(name)
        if not isinstance(value, str):
            continue
        model = packaged_models.MODELS.get(value.removeprefix(packaged_models.PREFIX))
        if value.startswith(packaged_models.PREFIX) and model is not None:
            found[name] = model.gguf_sha256
        elif (folder := Path(value).expanduser()).is_dir():
            found[name] = _sampled(folder)
    return found


def _sampled(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if not path.is_file() or any(part.startswith(".") for part in inner.parts):
            continue
        size = path.stat().st_size
        digest.update(f"{inner.as_posix()} {size}\n".encode())
        with path.open("rb") as file:
            for start in range(0, size, max(_BLOCK, size // _BLOCKS)):
                file.seek(start)
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()
