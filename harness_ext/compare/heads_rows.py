"""Reads the recorded runs with head vectors and ablated heads.

    results/heads/<model>.jsonl    one row per task, seed, and what was done to the model

`results/heads.py` writes them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness_ext.compare.heads_runs import (
    ABLATED,
    ADDED,
    FAMILIES,
    FRACTION,
    GENERATION,
    ICL,
    RATIO,
    SHOTS,
    ZERO_SHOT,
    Arm,
    Choice,
    HeadRuns,
    Row,
    score_of,
)
from harness_ext.compare.json_rows import read_rows
from harness_ext.errors import UsageError

_ARGUMENTS = {"method", "seed", "dev", "draws", "head_fraction", "ablate"}
_FIELDS: Mapping[str, type] = {
    "key": str, "task": str, "seed": int, "shots": int, "steering": dict, "doc_hashes": list,
    "queries": list, "scores": dict, "record": dict, "version": str, "dtype": str,
}  # fmt: skip


def read_models(folder: Path) -> list[HeadRuns]:
    """The rows of every model recorded in the folder, by name; none where there is no folder.

    Raises :class:`UsageError` naming file and line of the first row that is cut off, is no row of
    `results/heads.py`, stands twice, or tests other documents or weights than the rows before it.
    """
    return [_read_model(path) for path in sorted(folder.glob("*.jsonl"))]


def _read_model(path: Path) -> HeadRuns:
    rows: dict[tuple[str, Arm], dict[int, Row]] = defaultdict(dict)
    first: dict[str, Row] = {}
    weighed: Row | None = None
    for place, fields in read_rows(path):
        row = _row(fields, place)
        own = rows[row.task, row.arm]
        if row.seed in own:
            raise UsageError(
                f"{place}: the run of {own[row.seed].place} stands again. Remove either."
            )
        like = first.setdefault(row.task, row)
        if (row.documents, row.queries) != (like.documents, like.queries):
            raise UsageError(
                f"{place}: not the documents of {like.place}, though both test {row.task}. Run "
                "both with the same --limit and the same version of the tasks."
            )
        if row.weights is not None:
            weighed = weighed or row
            if row.weights != weighed.weights:
                raise UsageError(
                    f"{place}: weights_sha256={row.weights!r}, where {weighed.place} has "
                    f"{weighed.weights!r}. A file holds the runs of one model."
                )
        own[row.seed] = row
    return HeadRuns(path.stem.replace("__", "/"), {key: dict(own) for key, own in rows.items()})


def _row(fields: Mapping[str, Any], place: str) -> Row:
    for name, kind in _FIELDS.items():
        value = fields.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _foreign(place, f"{name}={_short(value)}")
    task, steering = fields["task"], fields["steering"]
    identity = [task, fields["seed"], fields["shots"], steering]
    if fields["key"] != json.dumps(identity, sort_keys=True):
        raise _foreign(place, f"key={_short(fields['key'])} is not that of {_short(identity)}")
    if not task.startswith(FAMILIES):
        raise _foreign(place, f"task={task!r} begins with none of {', '.join(FAMILIES)}")
    arm = _arm(fields, place)
    documents, queries = tuple(fields["doc_hashes"]), tuple(fields["queries"])
    if not all(isinstance(text, str) for text in (*documents, *queries)):
        raise _foreign(place, "doc_hashes and queries are not all texts")
    if len({*documents}) != len(documents) or len(queries) != len(documents):
        raise _foreign(place, f"{len({*documents})} documents for {len(queries)} queries")
    if len({*queries}) < 2:
        raise UsageError(
            f"{place}: {task} was run on {len({*queries})} query: there is no interval for fewer "
            "than 2. Run it with a higher --limit."
        )
    weights = fields.get("weights_sha256")
    return Row(
        place, task, fields["seed"], arm, documents, queries,
        scores=_scores(fields["scores"], task, len(queries), place),
        choices=_choices(fields["record"], place) if arm.added != "none" else (),
        facts={
            "dtype": fields["dtype"],
            "version": fields["version"],
            **({"development episodes": str(steering["dev"])} if "dev" in steering else {}),
        },
        weights=None if weights is None else str(weights),
    )  # fmt: skip


def _arm(fields: Mapping[str, Any], place: str) -> Arm:
    steering = fields["steering"]
    added, ablated = steering.get("method"), steering.get("ablate", "none")
    fraction = steering.get("head_fraction", FRACTION)
    planned = Arm(added, ablated, fields["shots"])
    if (
        not steering.keys() - _ARGUMENTS
        and steering.get("seed", fields["seed"]) == fields["seed"]
        and planned in (ZERO_SHOT, ICL, *ADDED.values(), *ABLATED.values())
        and isinstance(fraction, (int, float))
        and (0 < fraction <= 1 if planned in ADDED.values() else fraction == FRACTION)
    ):
        return replace(planned, fraction=float(fraction))
    raise _foreign(
        place,
        f"steering={_short(steering)} at {fields['shots']} shots and seed {fields['seed']} is in "
        f"none of the plans (unsteered or with heads added at 0 shots, unsteered or with heads "
        f"knocked out at {SHOTS}; no arguments but {', '.join(sorted(_ARGUMENTS))})",
    )


def _scores(
    scores: Mapping[str, Any], task: str, count: int, place: str
) -> dict[str, tuple[int, ...]]:
    """Those that are compared: the task's own metric, and the TR ratio of a task with labels."""
    wanted = [score_of(task)] if task.startswith(GENERATION) else [score_of(task), RATIO]
    for name in wanted:
        values = scores.get(name)
        if not isinstance(values, list) or len(values) != count:
            raise _foreign(place, f"scores hold no {name} for each of {count} documents")
        if any(value not in (0, 1) for value in values):
            raise _foreign(place, f"{name} is not 0 or 1 for each document")
    return {name: tuple(map(int, scores[name])) for name in wanted}


def _choices(record: Mapping[str, Any], place: str) -> tuple[Choice, ...]:
    try:
        found = tuple(map(_choice, record.get("draws", [record])))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _foreign(place, "record does not say which heads, layer and strength") from error
    if not found:
        raise _foreign(place, "record holds no draws of heads")
    return found


def _choice(own: Mapping[str, Any]) -> Choice:
    known = own.get("development_accuracy") if isinstance(own, Mapping) else None
    return Choice(
        heads=len(own["heads"]),
        layer=int(own["layer"]),
        strength=float(own["strength"]),
        development=None if known is None else float(known),
    )


def _foreign(place: str, what: str) -> UsageError:
    return UsageError(f"{place}: {what}: not a row of results/heads.py. Run the cell again.")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
