"""Vectors as files: safetensors with a JSON header that says what made them.

A file holds one float32 tensor `vectors` and, as the only entry of its metadata, a JSON object:
`format`, `header` (see :class:`Header`), `shape`, and `sha256` over these three and the tensor's
bytes. The sum finds damage; it is no signature. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from harness_ext import __version__
from harness_ext.errors import UsageError
from harness_ext.files import write_whole
from harness_ext.steering.vector_file import Header, VectorFile, flaw, is_whole, not_finite

FORMAT = 1
"""To be raised when files change so that older releases misread them."""

SUFFIX = ".safetensors"
_METADATA, _TENSOR = "taskvec", "vectors"
_LONGEST_NAME = 200  # file systems take 255 bytes


def save(path: Path, file: VectorFile) -> None:
    """Write the file whole or not at all; its folder is made where there is none.

    The bytes are a function of the vectors and the header alone. Raises :class:`UsageError` for NaN
    or infinity and where nothing can be written, and ValueError for what is no vector file at all.
    """
    header = _plain(asdict(file.header))
    vectors = file.vectors.detach().cpu().contiguous()
    if reason := flaw(header, vectors):
        raise ValueError(f"no vector file: {reason}")
    if reason := not_finite(vectors):
        raise UsageError(f"the vectors for {file.header.task!r} hold {reason}; nothing is saved.")
    signed = {"format": FORMAT, "header": header, "shape": list(vectors.shape)}
    content = {**signed, "sha256": _checksum(signed, vectors)}
    data = to_bytes({_TENSOR: vectors}, metadata={_METADATA: _canonical(content)})
    try:
        write_whole(path, data)
    except OSError as error:
        raise UsageError(
            f"vectors cannot be written to {path}: {error.strerror or error}. Name a folder that "
            "can be written."
        ) from error


def load(path: Path | str) -> VectorFile:
    """Read and verify a file. Raises :class:`UsageError` naming what is wrong with it."""
    path = Path(path)
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder; name one of its files: {_listing(path)}.")
    try:
        metadata, vectors = _read(path)
    except FileNotFoundError as error:
        raise UsageError(
            f"{path} does not exist; pass a file that save_vectors=DIR has written."
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    except SafetensorError as error:
        _refuse(path, f"{_what_else(path)} ({' '.join(str(error).split())})")
    if vectors is None:
        _refuse(path, "it is a safetensors file, but taskvec has not written it")
    content = _parsed(path, metadata)
    version: Any = content.get("format")
    if not is_whole(version) or version < 1:
        _refuse(path, f"its header has no format number: {version!r}")
    if version > FORMAT:
        _refuse(
            path,
            f"a newer taskvec has written it, in format {version}; taskvec {__version__} reads "
            f"format {FORMAT}. Upgrade taskvec-harness",
        )
    header, shape = content.get("header"), content.get("shape")
    if reason := flaw(header, vectors):
        _refuse(path, reason)
    if shape != list(vectors.shape):
        _refuse(path, f"its header says shape {shape}, its tensor has {list(vectors.shape)}")
    signed = {"format": version, "header": header, "shape": shape}
    if content.get("sha256") != _checksum(signed, vectors):
        _refuse(path, "its checksum does not fit: header or vectors were changed afterwards")
    if reason := not_finite(vectors):
        _refuse(path, f"it holds {reason}")
    return VectorFile(vectors, Header(**content["header"]))


def check_readable(path: Path) -> None:
    """What `vectors=` can be told before a model is loaded: the file is sound, the folder has any.

    Raises :class:`UsageError`.
    """
    if not os.path.isdir(path):
        load(path)
    elif not _files(path):
        raise UsageError(f"{path} holds no vector files ({SUFFIX}); save_vectors=DIR writes them.")


def check_writable(folder: Path, what: str = "vectors") -> None:
    """Whether a folder, or the place where it will be made, can be written; nothing is made yet.

    what: what it is to hold, for the message.

    Raises :class:`UsageError`.
    """
    there = next(each for each in (folder, *folder.absolute().parents) if os.path.lexists(each))
    if not there.is_dir():
        found = "is a file" if there.exists() else "is a link to nothing"
        raise UsageError(f"{folder} cannot hold {what}: {there} {found}. Name a folder.")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise UsageError(f"{folder} cannot be written. Name a folder that can.") from error


def _read(path: Path) -> tuple[str, Tensor | None]:
    """Our metadata and the vectors; none where they are not there."""
    path.open("rb").close()  # safetensors calls whatever cannot be opened a missing file
    with safe_open(path, framework="pt") as opened:
        metadata = (opened.metadata() or {}).get(_METADATA)
        if metadata is None or list(opened.keys()) != [_TENSOR]:
            return "", None
        # The tensor may lie in the mapped file, which others can change.
        return metadata, opened.get_tensor(_TENSOR).clone()


def _parsed(path: Path, metadata: str) -> Mapping[str, Any]:
    try:
        content = json.loads(metadata, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"its header is not JSON ({error})")
    if not isinstance(content, dict):
        _refuse(path, "its header is not a JSON object")
    return content


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no finite number")


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _refuse(path: Path, reason: str) -> NoReturn:
    raise UsageError(f"{path} is not a vector file that can be used: {reason}.")


def _what_else(path: Path) -> str:
    """What a file is that safetensors cannot read. Told by its first bytes, nothing is executed."""
    with path.open("rb") as stream:
        start = stream.read(9)
    if not start:
        return "it is empty"
    # Eight bytes give the length of the JSON that follows, in safetensors never more than this.
    if start[8:] == b"{" and int.from_bytes(start[:8], "little") <= 100_000_000:
        return "it is truncated or damaged"
    if re.match(rb"PK\x03\x04|\x80[\x02-\x05]", start):
        return "this is a pickle (as torch.save writes); taskvec reads safetensors only"
    return "it is not safetensors"


def _checksum(signed: Mapping[str, Any], vectors: Tensor) -> str:
    digest = hashlib.sha256(_canonical(signed).encode())
    digest.update(vectors.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    """The value as it comes back from JSON: tuples as lists, keys as texts."""
    return json.loads(_canonical(value))


def file_name(task: str) -> str:
    """The name of a task's file in a folder of vectors, different for different tasks.

    Percent-encoded outside A-Z a-z 0-9 _ . - and at a leading dot; long names end in a hash.
    """
    raw = task.encode("utf-8", "surrogatepass")
    safe = re.sub(rb"^\.|[^A-Za-z0-9_.-]", lambda match: b"%%%02X" % ord(match[0]), raw).decode()
    if len(safe) > _LONGEST_NAME:
        # No encoded name holds this mark, for s is not a hex digit.
        mark = f"%sha256-{hashlib.sha256(raw).hexdigest()}"
        safe = safe[: _LONGEST_NAME - len(mark)] + mark
    return safe + SUFFIX


def path_of(vectors: Path, task: str) -> Path:
    """The task's file, for what `vectors=` names: a folder of them, or the file itself.

    Raises :class:`UsageError` where the folder has none for the task.
    """
    if not os.path.isdir(vectors):
        return vectors
    path = vectors / file_name(task)
    if not path.exists():
        raise UsageError(
            f"{vectors} holds no {path.name}, the vectors for task {task!r}; there are: "
            f"{_listing(vectors)}."
        )
    return path


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(f"*{SUFFIX}"))


def _listing(folder: Path) -> str:
    names = _files(folder)
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more if names else "none"
