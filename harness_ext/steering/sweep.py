"""Every layer as a place to inject, scored on development prompts.

All layers run in one pass (see :mod:`harness_ext.steering.one_pass`) wherever that is exact. The
plain loop, a forward per layer, is the oracle: before a model's first sweep of a kind the pass has
to reproduce it on two prompts, and where it does not (a family that keeps its cache elsewhere, say)
the loop serves.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.inject import Edit, Injection, inject
from harness_ext.steering.one_pass import batches, keeps_plain, one_pass
from harness_ext.steering.scoring import SweepPrompt, SweepScores, score_logits
from harness_ext.steering.trial import Flaws, flaw

TOLERANCE = 2e-3
"""Largest difference of log-probabilities, float32, at which pass and loop count as the same."""

_flaws: Flaws = weakref.WeakKeyDictionary()


def sweep_layers(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None] = (None,),
) -> SweepScores:
    """Score the injection of `vectors` at every layer, all layers in one pass where that is exact.

    vectors: [prompts, layers, cues, width], each prompt's vectors for each layer; a prompt that has
    fewer cues takes the last. strengths: None replaces the state, a number adds that multiple.
    """
    # The longest and the shortest of one batch: what is tried includes rows that are filled up.
    batch = next(batches(anatomy, prompts, rows_each=1))
    probe = list(dict.fromkeys((batch[0], batch[-1])))
    check = partial(_disagreement, anatomy, [prompts[i] for i in probe], vectors[probe], strengths)
    instead = "layer sweeps run a forward per layer; the one-pass sweep is not exact here"
    kind = (keeps_plain(prompts[0], strengths), len(prompts[0].cues) > 1)
    found = flaw(_flaws, anatomy.model, kind, check, instead)
    sweep = one_pass if found is None else layer_loop
    return sweep(anatomy, prompts, vectors, strengths)


def _disagreement(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None],
) -> str | None:
    """How scores of one pass and of the loop differ, or None where they do not."""
    last = len(anatomy.layers) - 1
    layers = sorted({0, last // 2, last})
    fast = one_pass(anatomy, prompts, vectors, strengths)
    slow = layer_loop(anatomy, prompts, vectors[:, layers], strengths, layers)
    tolerance = TOLERANCE if anatomy.model.dtype == torch.float32 else 0.15
    gap = (fast.log_prob[:, layers] - slow.log_prob).abs()
    gap = gap / slow.log_prob.abs().clamp(min=1.0)
    if not torch.isfinite(gap).all() or gap.max() > tolerance:
        return f"log-probabilities differ by {gap.max():.2g}"
    return None


def layer_loop(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None] = (None,),
    layers: Sequence[int] | None = None,
) -> SweepScores:
    """The same by one whole forward per layer and strength.

    layers: those that the columns of `vectors` are for, by default all.
    """
    wanted = range(len(anatomy.layers)) if layers is None else layers
    results = [
        _forward(anatomy, prompts, vectors[:, [column]], [layer], strength)
        for column, layer in enumerate(wanted)
        for strength in strengths
    ]
    return _scores(results, (len(prompts), len(wanted), len(strengths)))


def score_together(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None],
    layers: Sequence[int],
) -> SweepScores:
    """Score the injection of `vectors` [prompts, layers, cues, width] at all `layers` at once.

    One whole forward per strength; the scores have one layer's column.
    """
    results = [_forward(anatomy, prompts, vectors, layers, strength) for strength in strengths]
    return _scores(results, (len(prompts), 1, len(strengths)))


def _scores(results: Sequence[tuple[Tensor, Tensor]], shape: tuple[int, int, int]) -> SweepScores:
    return SweepScores(
        right=torch.stack([right for right, _ in results], dim=1).view(shape),
        log_prob=torch.stack([log_prob for _, log_prob in results], dim=1).view(shape),
    )


def _forward(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    layers: Sequence[int],
    strength: float | None,
) -> tuple[Tensor, Tensor]:
    """Scores under the vectors [prompts, layers, cues, width], at all `layers` at once."""
    right = torch.empty(len(prompts), dtype=torch.bool)
    log_prob = torch.empty(len(prompts))
    for batch in batches(anatomy, prompts, rows_each=1, padded=False):
        chosen = [prompts[i] for i in batch]
        edits = [
            Edit(row, cue, Injection(layer, vector, strength))
            for row, i in enumerate(batch)
            for layer, own in zip(layers, vectors[i], strict=True)
            for cue, vector in zip(prompts[i].cues, own[-len(prompts[i].cues) :], strict=True)
        ]
        ids = torch.tensor([p.ids for p in chosen], device=anatomy.device)
        with torch.no_grad(), inject(anatomy, edits, len(batch)):
            output = anatomy.model(
                input_ids=ids, use_cache=False, logits_to_keep=len(chosen[0].targets)
            )
        right[batch], log_prob[batch] = score_logits(output.logits, [p.targets for p in chosen])
    return right, log_prob
