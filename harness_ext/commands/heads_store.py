"""The findings on each task as a file, by which an interrupted `taskvec heads` goes on.

A file holds the task's scores [layers, heads] and, as the only entry of its metadata, a JSON
object: `format`, `made_with` (all that the findings depend on), `findings`, and `sha256` over these
and the scores. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from harness_ext.analysis.attention_mass import Mass
from harness_ext.analysis.explained import Explained, Geometry
from harness_ext.analysis.head_overlap import Agreement, Ranks
from harness_ext.commands.heads_measure import TaskFindings
from harness_ext.errors import UsageError
from harness_ext.files import write_whole
from harness_ext.steering.store import SUFFIX, file_name

log = logging.getLogger(__name__)

FORMAT = 1
"""To be raised when files change; those of another format are made again."""

_METADATA = "taskvec"


def stem_of(name: str) -> str:
    """A file name without suffix, different for different names."""
    return file_name(name).removesuffix(SUFFIX)


def path_of(folder: Path, task: str) -> Path:
    """The file of a task's findings."""
    return folder / f"{stem_of(task)}.findings{SUFFIX}"


def save(folder: Path, made_with: Mapping[str, Any], found: TaskFindings) -> None:
    """Keep the findings on a task. Raises :class:`UsageError` where they cannot be written."""
    scores = {name: own.contiguous() for name, own in found.scores.items()}
    content = {"format": FORMAT, "made_with": made_with, "findings": _content(found)}
    signed = {**content, "sha256": _checksum(content, scores)}
    metadata = {_METADATA: json.dumps(signed, sort_keys=True, allow_nan=False)}
    write_file(path_of(folder, found.task), to_bytes(scores, metadata=metadata))


def load(folder: Path, made_with: Mapping[str, Any], task: str) -> TaskFindings | None:
    """The task's findings of an earlier run; None if none made them with the very same settings.

    What is damaged, or no such file, counts as none, with a warning that names it. Raises
    :class:`UsageError` for one that cannot be read.
    """
    path = path_of(folder, task)
    try:
        path.open("rb").close()  # safetensors calls whatever cannot be opened a missing file
        with safe_open(path, framework="pt") as opened:
            content = json.loads((opened.metadata() or {})[_METADATA])
            # Clones: the file is mapped, and will be replaced.
            scores = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
        if content.pop("sha256") != _checksum(content, scores):
            raise ValueError("its checksum does not fit")
        if content["format"] != FORMAT or content["made_with"] != _plain(made_with):
            return None
        return _findings(content["findings"], scores)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(
            f"{path}, where a task's findings are kept, cannot be read: "
            f"{error.strerror or error}. Move it away, or name another --output_path."
        ) from error
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError):
        log.warning("%s is damaged, or not of `taskvec heads`; its task is scored again.", path)
        return None


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all. Raises :class:`UsageError` where it cannot be written."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}. Name a folder that can be "
            "written as --output_path."
        ) from error


def _content(found: TaskFindings) -> dict[str, Any]:
    return {
        "task": found.task,
        "prompts": found.prompts,
        "scores": list(found.scores),
        "top": [[kind, heads] for kind, heads in found.top.items()],
        "mean_layers": [list(own) for own in found.mean_layers.items()],
        "agreements": [[pair, asdict(own)] for pair, own in found.agreements.items()],
        "norms": found.norms,
        "layer": found.layer,
        **{
            name: [[kind, asdict(own)] for kind, own in getattr(found, name).items()]
            for name in ("induction_ranks", "attention", "explained", "geometry")
        },
    }


def _findings(content: Mapping[str, Any], scores: Mapping[str, Tensor]) -> TaskFindings:
    return TaskFindings(
        task=content["task"],
        prompts=content["prompts"],
        scores={name: scores[name] for name in content["scores"]},
        top={kind: [(layer, head) for layer, head in heads] for kind, heads in content["top"]},
        mean_layers=dict(content["mean_layers"]),
        agreements={(a, b): Agreement(**own) for (a, b), own in content["agreements"]},
        induction_ranks={kind: Ranks(**own) for kind, own in content["induction_ranks"]},
        attention={kind: Mass(**own) for kind, own in content["attention"]},
        explained={
            kind: Explained(**{name: tuple(values) for name, values in own.items()})
            for kind, own in content["explained"]
        },
        norms=tuple(content["norms"]),
        layer=content["layer"],
        geometry={kind: Geometry(**own) for kind, own in content["geometry"]},
    )


def _checksum(content: Mapping[str, Any], scores: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(scores):
        digest.update(name.encode() + scores[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """The value as it comes back from JSON."""
    return json.loads(json.dumps(value))
