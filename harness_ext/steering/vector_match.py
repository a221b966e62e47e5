"""Whether vectors from a file may be injected into this model, task and document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.steering.vector_file import VectorFile, document_id, is_sum


def check_matches(
    file: VectorFile,
    path: Path,
    *,
    fingerprint: Mapping[str, str],
    dtype: str,
    hidden_size: int,
    n_layers: int,
) -> None:
    """Whether the vectors are of this very model and tokenizer, in this dtype.

    Raises :class:`UsageError` with the values of file and model side by side.
    """
    header = file.header
    ours, theirs = dict(fingerprint), dict(header.fingerprint)
    if header.dtype != dtype:  # then the weights' bytes differ in any case
        for each in (ours, theirs):
            each.pop("unembedding_sha256", None)
            each.pop("weights_sha256", None)
    differences = _differences(
        {**theirs, "dtype": header.dtype, "width": file.vectors.shape[2]},
        {**ours, "dtype": dtype, "width": hidden_size},
    )
    if header.layer >= n_layers:
        differences.append(f"layer {header.layer} in the file, 0 to {n_layers - 1} in the model")
    if differences:
        raise UsageError(
            f"{path} does not fit the model: {'; '.join(differences)}. Use it with the model that "
            f"made it ({header.model}), or make vectors for this one with save_vectors=DIR."
        )


def check_task(
    file: VectorFile,
    path: Path,
    *,
    method: str,
    task: str,
    template: Mapping[str, Any],
    shots: int,
) -> None:
    """Whether the vectors were made for this method, this task, its prompts and as many shots.

    Raises :class:`UsageError` with the values of file and run side by side.
    """
    header = file.header
    differences = _differences(
        {"method": header.method, "task": header.task, "num_fewshot": header.shots},
        {"method": method, "task": task, "num_fewshot": shots},
    )
    rendering = json.loads(json.dumps(dict(template)))  # as it comes back from a file
    differences += _differences(header.template, rendering)
    if differences:
        raise UsageError(
            f"{path} does not fit the run: {'; '.join(differences)}. Run what it was made for, or "
            "make vectors for this run with save_vectors=DIR."
        )


def vectors_for(file: VectorFile, path: Path, keys: Sequence[str]) -> Tensor:
    """The vectors [documents, cues, width] for documents with these keys, in order.

    A reusable vector serves every document. Raises :class:`UsageError` for a document that the file
    has no vector for.
    """
    known = file.header.documents
    if known is None:
        return file.vectors.expand(len(keys), -1, -1)
    rows = {document: row for row, document in enumerate(known)}
    missing = [key for key in keys if document_id(key) not in rows]
    if missing:
        raise UsageError(
            f"{path} holds vectors for {len(known)} documents, but none for {len(missing)} of the "
            f"{len(keys)} tested ones, such as {missing[0]}. Test the documents it was made for, "
            "or make a reusable vector with average=N."
        )
    return file.vectors[[rows[document_id(key)] for key in keys]]


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Every name whose values differ, with both."""
    return [
        f"{name} is {_shown(name, theirs)} in the file, {_shown(name, ours)} here"
        for name in dict.fromkeys((*theirs, *ours))
        if name not in theirs or name not in ours or theirs[name] != ours[name]
    ]


def _shown(name: str, values: Mapping[str, Any]) -> str:
    if name not in values:
        return "not set"
    return f"{values[name][:12]}…" if is_sum(values[name]) else repr(values[name])
