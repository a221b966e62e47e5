"""How the findings of `taskvec heads` are written to files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save as to_bytes
from torch import Tensor

from harness_ext.analysis.head_overlap import Agreement, mean_agreement
from harness_ext.commands.heads_claims import Claim
from harness_ext.commands.heads_measure import LOGITS, TaskFindings
from harness_ext.commands.heads_plots import explained_lines, head_map, looks
from harness_ext.commands.heads_store import stem_of, write_file
from harness_ext.heads.select import top_heads

FORMAT = 1
"""To be raised when files change so that their readers have to."""


@dataclass(frozen=True, eq=False)
class Report:
    """All that a run found.

    provenance: what made it, JSON-able. across: agreements of every two tasks, by score.
    """

    provenance: Mapping[str, Any]
    model: str
    fraction: float
    squared: bool
    tasks: Sequence[TaskFindings]
    across: Mapping[str, Mapping[tuple[str, str], Agreement]]
    claims: Sequence[Claim]


def write(report: Report, folder: Path) -> list[Path]:
    """Write scores, findings and pictures, each file whole or not at all; files of the same name
    are replaced, others stay. Returns the files.

    `scores.json` comes last. Raises :class:`UsageError` where something cannot be written.
    """
    files: dict[str, bytes] = {}
    for found in report.tasks:
        stem = stem_of(found.task)
        for name, data in _pictures(report, found).items():
            files[f"{stem}.{name}"] = data
    files.update(_named("induction", _map(report, report.tasks[0], "ih", report.model)))
    files["scores.safetensors"] = _scores(report)
    sha256 = hashlib.sha256(files["scores.safetensors"]).hexdigest()
    content = {**as_json(report), "scores_sha256": sha256}
    files["scores.json"] = (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()
    for name, data in files.items():
        write_file(folder / name, data)
    return [folder / name for name in files]


def as_json(report: Report) -> dict[str, Any]:
    """What scores.json holds, but for the sum over the scores' file."""
    fraction = report.fraction
    return {
        "format": FORMAT,
        **report.provenance,
        "tasks": {found.task: _task(found, fraction) for found in report.tasks},
        "across_tasks": {
            kind: {
                "mean": asdict(mean_agreement(list(pairs.values()))),
                "pairs": [{"tasks": list(names), **asdict(own)} for names, own in pairs.items()],
            }
            for kind, pairs in report.across.items()
            if pairs
        },
        "claims": [asdict(claim) for claim in report.claims],
    }


def _task(found: TaskFindings, fraction: float) -> dict[str, Any]:
    top = {
        **found.top,
        **{name: top_heads(found.scores[name], fraction) for name in LOGITS},
    }
    return {
        "prompts": found.prompts,
        "top": {
            kind: [
                {"layer": layer, "head": head, "score": found.scores[kind][layer, head].item()}
                for layer, head in heads
            ]
            for kind, heads in top.items()
        },
        "mean_layer": dict(found.mean_layers),
        "agreement": [
            {"scores": list(pair), **asdict(own)} for pair, own in found.agreements.items()
        ],
        "top_induction_heads_by": {k: asdict(own) for k, own in found.induction_ranks.items()},
        "attention_at_cue": {kind: asdict(own) for kind, own in found.attention.items()},
        "explained_by_layer": {kind: asdict(own) for kind, own in found.explained.items()},
        "task_vector_norm_by_layer": list(found.norms),
        "label_geometry": {
            "layer": found.layer,
            **{kind: asdict(own) for kind, own in found.geometry.items()},
        },
    }


def _scores(report: Report) -> bytes:
    """The scores [layers, heads], by `task/score`, and `induction`."""
    tensors: dict[str, Tensor] = {
        f"{found.task}/{name}": scores.contiguous()
        for found in report.tasks
        for name, scores in found.scores.items()
        if name != "ih"
    }
    tensors["induction"] = report.tasks[0].scores["ih"].contiguous()
    written = json.dumps({"format": FORMAT, **report.provenance}, sort_keys=True)
    return to_bytes(tensors, metadata={"taskvec": written})


def _pictures(report: Report, found: TaskFindings) -> dict[str, bytes]:
    about = f"{found.task}, {report.model}"
    files: dict[str, bytes] = {}
    for name in found.scores:
        if name != "ih":
            files.update(_named(name, _map(report, found, name, about)))
    files.update(_named("explained", explained_lines(found.explained, about)))
    return files


def _map(report: Report, found: TaskFindings, name: str, about: str) -> dict[str, bytes]:
    scores = found.scores[name]
    top = top_heads(scores, report.fraction)
    return head_map(scores, top, looks(report.squared)[name], about)


def _named(stem: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{stem}.{form}": data for form, data in files.items()}
