"""What a vector file holds: vectors, and a header that says what made them."""

from __future__ import annotations

import hashlib
import math
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from harness_ext import __version__


@dataclass(frozen=True)
class _Kind:
    """What a header field may hold: in words, and as a test of its JSON value."""

    words: str
    fits: Callable[[Any], bool]


def _kind(words: str, fits: Callable[[Any], bool]) -> Mapping[str, _Kind]:
    return {"kind": _Kind(words, fits)}


def is_whole(value: Any) -> bool:
    """Whether this is an integer (which True is not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_sum(value: Any) -> bool:
    """Whether this is a SHA-256 sum in hex digits."""
    return isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{64}", value))


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _is_factor(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, str) and isinstance(getattr(torch, value, None), torch.dtype)


_TEXT = _kind("a text", lambda value: isinstance(value, str))
_OPTIONAL_TEXT = _kind("a text or null", lambda value: value is None or isinstance(value, str))
_WHOLE = _kind("a whole number", is_whole)
_COUNT = _kind("a whole number ≥ 0", lambda value: is_whole(value) and value >= 0)
_MAPPING = _kind("an object", lambda value: isinstance(value, dict))
_TEXTS = _kind("an object of texts", _is_texts)
_MODE = _kind("replace or add", lambda value: value in ("replace", "add"))
_FACTOR = _kind("a finite number or null", lambda value: value is None or _is_factor(value))
_DTYPE = _kind("the name of a torch dtype", _is_dtype)
_SUMS = _kind(
    "a list of SHA-256 sums or null",
    lambda value: value is None or (isinstance(value, list) and all(map(is_sum, value))),
)


@dataclass(frozen=True, kw_only=True)
class Header:
    """What made the vectors, and what they may be injected into. JSON-able throughout.

    template: whatever renders the task's prompts, by name (doc_to_text, delimiters, cue, chat, …).
    strength: factor of an added vector, None in mode `replace`. shots: demonstrations in the
    prompts injected into. model: as it was asked for, `packaged:NAME` included. dtype: the model's,
    without `torch.`. fingerprint: see :mod:`harness_ext.steering.fingerprint`. documents:
    :func:`document_id` of each item's document, None for a reusable vector. record: the method's
    record, as in the results file. Other fields are the arguments of that name.
    """

    method: str = field(metadata=_TEXT)
    task: str = field(metadata=_TEXT)
    template: dict[str, Any] = field(metadata=_MAPPING)
    layer: int = field(metadata=_COUNT)
    mode: str = field(metadata=_MODE)
    strength: float | None = field(metadata=_FACTOR)
    shots: int = field(metadata=_COUNT)
    demos: int = field(metadata=_COUNT)
    queries: int = field(metadata=_COUNT)
    average: int = field(metadata=_COUNT)
    dev: int = field(metadata=_COUNT)
    seed: int = field(metadata=_WHOLE)
    model: str = field(metadata=_TEXT)
    revision: str | None = field(metadata=_OPTIONAL_TEXT)
    dtype: str = field(metadata=_DTYPE)
    fingerprint: dict[str, str] = field(metadata=_TEXTS)
    documents: list[str] | None = field(metadata=_SUMS)
    record: dict[str, Any] = field(metadata=_MAPPING)
    version: str = field(default=__version__, metadata=_TEXT)


@dataclass(frozen=True, eq=False)
class VectorFile:
    """Vectors [items, cues, width], float32, and what made them.

    One item where the vector is reusable, else one for each of the header's documents, in order.
    """

    vectors: Tensor
    header: Header


def document_id(key: str) -> str:
    """SHA-256 of a document's key, as hex digits."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def flaw(header: Any, vectors: Tensor) -> str | None:
    """What is wrong with a header in its JSON form, or with the vectors under it."""
    if not isinstance(header, dict):
        return "its header is not an object"
    for each in fields(Header):
        kind: _Kind = each.metadata["kind"]
        if each.name not in header:
            return f"its header lacks {each.name}"
        if not kind.fits(header[each.name]):
            return (
                f"its header's {each.name} is not {kind.words}: {reprlib.repr(header[each.name])}"
            )
    if unknown := header.keys() - {each.name for each in fields(Header)}:
        return f"its header has unknown fields: {', '.join(sorted(unknown))}"
    if (header["strength"] is None) != (header["mode"] == "replace"):
        return f"strength {header['strength']} does not go with mode {header['mode']}"
    if vectors.dtype != torch.float32 or vectors.dim() != 3 or not vectors.numel():
        return (
            f"its vectors are {vectors.dtype} {list(vectors.shape)}, not float32 [items, cues, "
            "width]"
        )
    documents = header["documents"]
    expected = 1 if documents is None else len(set(documents))
    if len(vectors) != expected or (documents is not None and len(documents) != expected):
        whose = "a reusable vector" if documents is None else f"{len(documents)} documents"
        return f"it has {len(vectors)} vectors for {whose}, of which each takes one"
    return None


def not_finite(vectors: Tensor) -> str | None:
    """Where vectors [items, cues, width] hold NaN or infinity, if anywhere."""
    broken = ~vectors.isfinite().all(dim=2)
    if not broken.any():
        return None
    item, cue = broken.nonzero()[0].tolist()
    return f"NaN or infinity (item {item}, cue {cue})"
