"""Head vectors: what attention heads of one kind write, added to the tested prompt.

Yang, Cho and Inoue 2026 (arXiv 2509.24164); Todd et al. 2024 (arXiv 2310.15213). The mean outputs
of the heads, over the cues of prompts with demonstrations, are summed and added at the last cue of
the tested prompt, after one layer for all (`inject_at=layer`) or each after its own layer (`own`).
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harness_ext.config import AUTO
from harness_ext.heads.select import Head
from harness_ext.methods.base import AtCues, Bench, Plan
from harness_ext.methods.head_scores import HeadChoice, Readings, heads_by, read_heads
from harness_ext.methods.reusable import Reusable
from harness_ext.methods.selection import Selection, select_together
from harness_ext.methods.task_vector import TaskVector
from harness_ext.steering.context import Context, Document
from harness_ext.steering.episodes import Episode
from harness_ext.steering.inject import Injection


class HeadVector(TaskVector):
    """`tr`, `tl`, `ih`: a reusable vector per task, the sum of the mean outputs of its heads.

    draw: which draw of heads, where these are random.
    """

    def __init__(self, bench: Bench, draw: int = 0, readings: Readings | None = None) -> None:
        """readings: those of the one task that is planned, where they are at hand."""
        super().__init__(bench)
        self._draw, self._given = draw, readings

    def plan(self, context: Context, documents: Sequence[Document]) -> Plan:
        """See :meth:`Method.plan`. Heads, layer and strength hold for all of the task."""
        if self.bench.config.inject_at == "own":
            return self._plan_own(context, documents)
        return super().plan(context, documents)

    def _reusable(
        self, context: Context, episodes: Sequence[Episode], layers: Sequence[int]
    ) -> Reusable:
        choice, readings = self._heads(context)
        sums = _sums(readings.outputs, choice.heads)[:, None, None]
        states = sums.expand(-1, len(layers), -1, -1)
        return Reusable.of(context, readings.episodes, states, choice.record)

    def _heads(self, context: Context) -> tuple[HeadChoice, Readings]:
        """The heads, and what they write, which is read once."""
        readings = self._given or read_heads(self.bench, context)
        kind = self.bench.config.method
        return heads_by(kind, self.bench, context, self._draw, readings), readings

    def _plan_own(self, context: Context, documents: Sequence[Document]) -> Plan:
        config, (choice, readings) = self.bench.config, self._heads(context)
        layers = sorted({layer for layer, _ in choice.heads})
        apart = [[head for head in choice.heads if head[0] == layer] for layer in layers]
        states = torch.stack([_sums(readings.outputs, own) for own in apart], dim=1).unsqueeze(2)
        reusable = Reusable.of(context, readings.episodes, states, choice.record)
        if config.strength == AUTO:
            selection = self._develop(context, self._shape(context), layers, reusable)
        else:
            strength = float(config.strength)
            said = {"strength": strength, "chosen_by": "user", "layers": layers}
            selection = Selection(tuple(layers), strength, said)
        at_cue = tuple(
            Injection(layer, vector, selection.strength)
            for layer, vector in zip(layers, reusable.mean()[:, 0], strict=True)
        )
        record = {"shots": context.shots, **selection.record, **choice.record}
        return Plan([(at_cue,)] * len(documents), record)

    def _select(
        self,
        context: Context,
        episodes: Sequence[Episode],
        layers: Sequence[int],
        vectors: Tensor,
    ) -> Selection:
        if self.bench.config.inject_at == "own":
            return select_together(self.bench, context, episodes, layers, vectors)
        return super()._select(context, episodes, layers, vectors)


class RandomHeadVector(HeadVector):
    """`random`: heads in the layers of the task-recognition heads, in several draws.

    Every draw has its own heads, layer and strength; the tested documents are dealt over them, each
    by a hash of itself, so that a score over all documents is nearly the mean over the draws. A
    draw that no document falls to is left out.
    """

    def plan(self, context: Context, documents: Sequence[Document]) -> Plan:
        """See :meth:`Method.plan`.

        The record holds every draw's, each with the `doc_hash` that lm-eval's samples give the
        draw's documents, so that tested scores can be told apart by draw.
        """
        draws = self.bench.config.draws
        dealt = [_deal(context, document, draws) for document in documents]
        readings = read_heads(self.bench, context)
        injections: dict[int, AtCues] = {}
        records: list[dict[str, Any]] = []
        for draw in sorted(set(dealt)):
            own = [number for number, found in enumerate(dealt) if found == draw]
            method = HeadVector(self.bench, draw, readings)
            plan = method.plan(context, [documents[number] for number in own])
            injections.update(zip(own, plan.injections, strict=True))
            hashes = [_sample_hash(documents[number]) for number in own]
            records.append({"draw": draw, **plan.record, "doc_hashes": hashes})
        found = [r["development_accuracy"] for r in records if "development_accuracy" in r]
        record = {
            "shots": context.shots,
            "draws": records,
            "development_accuracy": round(statistics.mean(found), 4) if found else None,
            "development_accuracy_sd": round(statistics.stdev(found), 4)
            if len(found) > 1
            else None,
        }
        return Plan([injections[number] for number in range(len(documents))], record)


def _sums(outputs: Tensor, heads: Sequence[Head]) -> Tensor:
    """Sum over `heads` of `outputs` [prompts, layers, heads, width]: [prompts, width]."""
    return torch.stack([outputs[:, layer, head] for layer, head in heads]).sum(dim=0)


def _deal(context: Context, document: Document, draws: int) -> int:
    digest = hashlib.sha256(context.key(document).encode()).digest()
    return int.from_bytes(digest[:8], "big") % draws


def _sample_hash(document: Document) -> str:
    """The `doc_hash` of the document in lm-eval's samples."""
    # Here, for vectors made from pairs in Python do without lm-eval.
    from lm_eval.utils import handle_non_serializable, hash_string

    text = json.dumps(document, indent=2, default=handle_non_serializable, ensure_ascii=False)
    return str(hash_string(text))
