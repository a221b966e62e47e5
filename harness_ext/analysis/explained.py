"""How much of what demonstrations change at the cue is written by some attention heads.

A task vector is taken here as a difference: the state at the last cue of prompts with
demonstrations, less that of the same queries without any, in the mean. What all attention heads and
all feed-forward layers up to a layer write differently is that vector, so the heads are taken by
the same difference. (In models that add position embeddings to the stream, GPT-2 and OPT, it also
holds the difference of these at the two cues, which no head writes.)
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness_ext.analysis.means import mean_of_known
from harness_ext.heads.select import Head
from harness_ext.heads.tsla import LabelSet, orthonormal_basis


@dataclass(frozen=True)
class Explained:
    """By layer, what the heads up to it explain of the vector after it; None where none has come.

    cosine: between the vector and the heads' sum. share: of the vector's squared norm, what its
    projection on the sum has (the cosine squared). span: the same for its projection on the span
    of the single heads, the most that any weights on them could reach.
    """

    cosine: tuple[float | None, ...]
    share: tuple[float | None, ...]
    span: tuple[float | None, ...]


@dataclass(frozen=True)
class Geometry:
    """How states lie to the labels, in the mean over prompts.

    cosine: between a state and its projection on the span of its labels' unembeddings. lead: dot
    product with the right label's unembedding less the mean over the others.
    """

    cosine: float
    lead: float


def explained(vectors: Tensor, outputs: Tensor, heads: Sequence[Head]) -> Explained:
    """What `heads` explain of `vectors` [layers, width], those after each layer.

    outputs: [layers, heads, width], of each head.
    """
    found = [
        _explained(vector.double(), [outputs[own].double() for own in heads if own[0] <= layer])
        for layer, vector in enumerate(vectors)
    ]
    cosine, share, span = zip(*found, strict=True)
    return Explained(cosine, share, span)


def mean_explained(found: Sequence[Explained]) -> Explained:
    """The means of several, as of draws of random heads, layer by layer."""
    return Explained(
        *(
            tuple(map(mean_of_known, zip(*(getattr(each, name) for each in found), strict=True)))
            for name in ("cosine", "share", "span")
        )
    )


def geometry(states: Tensor, labels: Sequence[LabelSet], unembedding: Tensor) -> Geometry:
    """How `states` [prompts, width] lie to the label set of each; see :class:`Geometry`.

    unembedding: [vocabulary, width], its rows as they are. Prompts with one label token have no
    lead.
    """
    cosines, leads = [], []
    for state, own in zip(states.to("cpu", torch.float64), labels, strict=True):
        rows = unembedding[list(own.tokens)].to("cpu", torch.float64)
        cosines.append(((orthonormal_basis(rows) @ state).norm() / state.norm()).item())
        logits = rows @ state
        if len(logits) > 1:
            leads.append((logits[0] - logits[1:].mean()).item())
    return Geometry(statistics.fmean(cosines), statistics.fmean(leads))


def _explained(
    vector: Tensor, outputs: Sequence[Tensor]
) -> tuple[float | None, float | None, float | None]:
    if not outputs or not vector.any():
        return None, None, None
    together = torch.stack(list(outputs))
    total = together.sum(dim=0)
    cosine = torch.cosine_similarity(vector, total, dim=0).item()
    span = (orthonormal_basis(together) @ vector).norm() / vector.norm()
    return cosine, cosine**2, span.item() ** 2
