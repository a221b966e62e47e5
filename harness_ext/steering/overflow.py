"""States that a model's dtype cannot hold, noticed where they arise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from harness_ext.errors import overflow_error
from harness_ext.steering.anatomy import Anatomy, hidden_of
from harness_ext.steering.inject import Start


@contextmanager
def refusing_overflow(
    anatomy: Anatomy, places: Sequence[tuple[int, int]], rows: int, first: int
) -> Iterator[None]:
    """While open, a forward in which a state turns NaN or infinite at one of `places` is stopped.

    places: (row, position), as :func:`harness_ext.steering.inject.inject` counts them in batches of
    `rows` rows. The layers from `first` on are watched, and compared once per forward, after the
    last. Raises :class:`UsageError` naming the first layer.
    """
    start, seen = Start(), []
    positions = [position for _, position in places]

    def note(_: nn.Module, __: Any, output: Any) -> None:
        hidden = hidden_of(output)
        copies = hidden.shape[0] // rows
        here = start.reached(positions, hidden.shape[1])
        if here:
            row = torch.tensor([places[n][0] * copies for n, _ in here], device=hidden.device)
            column = torch.tensor([column for _, column in here], device=hidden.device)
            seen.append(_finite(hidden[row, column]))

    def compare(*_: Any) -> None:
        sound = [bool(each) for each in seen]
        seen.clear()
        if not all(sound):
            raise overflow_error(first + sound.index(False), "in a tested prompt")

    with ExitStack() as stack:
        handle = anatomy.model.register_forward_pre_hook(start.note, with_kwargs=True)
        stack.callback(handle.remove)
        for layer in anatomy.layers[first:]:
            stack.callback(layer.register_forward_hook(note).remove)
        stack.callback(anatomy.layers[-1].register_forward_hook(compare).remove)
        yield


def _finite(states: Tensor) -> Tensor:
    """Whether all of them are finite; still on their device, so that nothing has to wait."""
    return torch.isfinite(states).all()
