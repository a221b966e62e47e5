"""Vectors of a task written to a file (`save_vectors`) and taken from one (`vectors`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from harness_ext.config import SteeringConfig
from harness_ext.errors import UsageError
from harness_ext.methods.base import Bench, Plan
from harness_ext.methods.selection import Selection
from harness_ext.steering import store
from harness_ext.steering.context import Context, Document
from harness_ext.steering.inject import Injection
from harness_ext.steering.vector_file import Header, VectorFile, document_id
from harness_ext.steering.vector_match import check_matches, check_task, vectors_for

_MAKING = ("mode", "demos", "queries", "average", "dev", "seed")


def save(
    bench: Bench,
    context: Context,
    selection: Selection,
    vectors: Tensor,
    documents: Sequence[str] | None,
    record: dict[str, Any],
) -> None:
    """Write a task's `vectors` [items, cues, width] to its file in the folder `save_vectors`.

    documents: the key of each item's document, or None for a reusable vector. Of several processes
    the first writes; vectors per document, of which each process has only some, are then refused.
    """
    config = bench.config
    if documents is not None and bench.world_size > 1:
        raise UsageError(
            f"save_vectors with average=0 writes a vector per tested document, but these are "
            f"spread over {bench.world_size} processes. Run one process, or pass average=N."
        )
    if bench.rank:
        return
    header = Header(
        method=config.method,
        task=context.name,
        template=_template(config, context, documents is not None),
        layer=selection.layer,
        mode=config.mode,
        strength=selection.strength,
        shots=context.shots,
        demos=config.demos,
        queries=config.queries,
        average=config.average,
        dev=config.dev,
        seed=config.seed,
        model=bench.name,
        revision=bench.revision,
        dtype=_dtype(bench),
        fingerprint=bench.fingerprint(),
        documents=None if documents is None else [document_id(key) for key in documents],
        record=record,
    )
    path = Path(str(config.save_vectors)) / store.file_name(context.name)
    store.save(path, VectorFile(vectors.float(), header))


def opened(config: SteeringConfig, context: Context) -> tuple[Path, VectorFile]:
    """The task's file in `vectors`, and its place; refused where another run has made it.

    Needs no model, which :func:`plan` compares.
    """
    path = store.path_of(Path(str(config.vectors)), context.name)
    file = store.load(path)
    check_task(
        file,
        path,
        method=config.method,
        task=context.name,
        template=_template(config, context, file.header.documents is not None),
        shots=context.shots,
    )
    return path, file


def plan(bench: Bench, context: Context, documents: Sequence[Document], cues: int) -> Plan:
    """The injections of the task's file in `vectors`, refused where it is another run's.

    cues: how many of a prompt's cues the method injects at.
    """
    path, file = opened(bench.config, context)
    header = file.header
    check_matches(
        file,
        path,
        fingerprint=bench.fingerprint(),
        dtype=_dtype(bench),
        hidden_size=bench.anatomy.hidden_size,
        n_layers=len(bench.anatomy.layers),
    )
    if file.vectors.shape[1] != cues:
        raise UsageError(
            f"{path} holds {file.vectors.shape[1]} vectors per prompt, but method="
            f"{bench.config.method} injects {cues} in a {context.shots}-shot prompt."
        )
    keys = [context.key(document) for document in documents]
    items = vectors_for(file, path, list(dict.fromkeys(keys)))
    made = [
        tuple((Injection(header.layer, vector, header.strength),) for vector in item)
        for item in (items[:1] if header.documents is None else items)
    ]
    record = {
        **header.record,
        "vectors": str(path),
        "made_with": {name: getattr(header, name) for name in _MAKING},
    }
    if header.documents is None:
        return Plan(made * len(documents), record)
    by_key = dict(zip(dict.fromkeys(keys), made, strict=True))
    return Plan([by_key[key] for key in keys], record)


def _dtype(bench: Bench) -> str:
    return str(bench.anatomy.model.dtype).removeprefix("torch.")


def _template(config: SteeringConfig, context: Context, per_document: bool) -> dict[str, Any]:
    """What shows how the task's prompts are written: one of them, with a demonstration.

    Vectors per document belong to the demonstrations that their documents were given, which in the
    tasks of this package follow the few-shot seed: that of the prompt then does too.
    """
    pool = context.pool()
    shown = context.order(pool[-1], 0, 0)[:1] if per_document else pool[:1]
    return {
        "cue": config.cue,
        "delimiter": context.delimiter,
        "prompt": context.prompt(shown, pool[-1]),
    }
