"""Steering a batch while the model runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import Tensor

from harness_ext.heads.ablate import ablating
from harness_ext.methods import Bench
from harness_ext.rows import Wave
from harness_ext.steering.inject import inject
from harness_ext.steering.overflow import refusing_overflow


@contextmanager
def steering(bench: Bench, wave: Wave, ids: Tensor, mask: Tensor | None = None) -> Iterator[None]:
    """While open, forwards over the batch are steered as the wave says.

    ids, mask: [rows, width], as :meth:`Wave.edits` takes them. Forwards in which a state overflows
    under the steering are stopped with :class:`UsageError`.
    """
    rows, edits, cues = len(ids), wave.edits(ids, mask), wave.cues(ids, mask)
    steered = {edit.injection.layer for edit in edits}
    with ExitStack() as stack:
        if wave.ablation is not None:
            places = cues if bench.config.ablate_at == "cue" else None
            stack.enter_context(ablating(bench.attention, wave.ablation, rows, places))
            steered.update(wave.ablation.layers())
        stack.enter_context(inject(bench.anatomy, edits, rows))
        if steered:
            watched = refusing_overflow(bench.anatomy, cues, rows, min(steered))
            stack.enter_context(watched)
        yield
