"""Knocking attention heads out while a model runs.

A head is knocked out by what its layer's output projection is given: the head's slice becomes zero,
or a mean. That is the model without the head: its columns of the projection's weight no longer
count.

At which tokens is the caller's choice. Everywhere, generated tokens included, is the model that
never had the head. At a prompt's last cue alone, what the head wrote at earlier tokens, the labels
of the demonstrations say, still reaches the cue through later heads; only what it writes there
itself is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harness_ext.steering.attention import Attention
from harness_ext.steering.batches import TOKEN_BUDGET, by_length, pad_right
from harness_ext.steering.capture import reading
from harness_ext.steering.inject import Start, copies_of


@dataclass(frozen=True, eq=False)
class Ablation:
    """Heads to knock out, and what stands in their place.

    heads: [layers, heads], True where knocked out. values: [layers, heads, size], each head's
    output before the projection from then on; None is zero.
    """

    heads: Tensor
    values: Tensor | None = None

    def layers(self) -> list[int]:
        """Layers with a head knocked out, in order."""
        found: list[int] = self.heads.any(dim=1).nonzero().flatten().tolist()
        return found


@contextmanager
def ablating(
    attention: Attention,
    ablation: Ablation,
    rows: int,
    places: Sequence[tuple[int, int]] | None = None,
) -> Iterator[None]:
    """While open, every forward of the model over `rows` rows runs without the heads.

    places: (row, position) of the tokens at which they are knocked out; None is all, of every
    forward. Positions count from the start of the sequence, padding and cached tokens included, and
    a batch that is a multiple of `rows` is taken as each row repeated in place, both as in
    :func:`harness_ext.steering.inject.inject`. The hooks are gone when the context closes, also
    after an exception.
    """
    start = Start()
    with ExitStack() as stack:
        handle = attention.anatomy.model.register_forward_pre_hook(start.note, with_kwargs=True)
        stack.callback(handle.remove)
        for layer in ablation.layers():
            hook = _knock_out(ablation, layer, rows, places, start)
            projection = attention.outputs[layer].projection
            stack.callback(projection.register_forward_pre_hook(hook).remove)
        yield


def _knock_out(
    ablation: Ablation,
    layer: int,
    rows: int,
    places: Sequence[tuple[int, int]] | None,
    start: Start,
) -> Any:
    heads = ablation.heads[layer]

    def hook(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        given: Tensor = args[0]
        out = heads.to(given.device).repeat_interleave(given.shape[-1] // len(heads))
        if places is not None:
            here = _columns(given, rows, places, start)
            if here is None:
                return args
            out = here.unsqueeze(2) & out
        if ablation.values is None:
            return (given.masked_fill(out, 0), *args[1:])
        return (torch.where(out, ablation.values[layer].flatten().to(given), given), *args[1:])

    return hook


def _columns(
    given: Tensor, rows: int, places: Sequence[tuple[int, int]], start: Start
) -> Tensor | None:
    """[batch, tokens], True at the places within `given` [batch, tokens, width], or None."""
    batch, tokens = given.shape[:2]
    copies = copies_of(rows, batch)
    reached = start.reached([position for _, position in places], tokens)
    if not reached:
        return None
    here = torch.zeros(batch, tokens, dtype=torch.bool)
    for index, column in reached:
        row, _ = places[index]
        here[row * copies : (row + 1) * copies, column] = True
    return here.to(given.device)


@torch.no_grad()
def mean_inputs(
    attention: Attention,
    rows: Sequence[Sequence[int]],
    positions: Sequence[int] | None = None,
    budget: int = TOKEN_BUDGET,
) -> Tensor:
    """Mean output of each head before the projection: [layers, heads, size], float32.

    Over one token of each row, by `positions`, or over all tokens of all rows. Logits are never
    computed.
    """
    anatomy, last = attention.anatomy, [attention.layers - 1]
    total = torch.zeros(attention.layers, attention.heads * attention.size, dtype=torch.float64)
    for batch in by_length([len(row) for row in rows], budget):
        own = [range(len(rows[i])) if positions is None else (positions[i],) for i in batch]
        places = [(n, column) for n, columns in enumerate(own) for column in columns]
        end = torch.tensor([[len(rows[i]) - 1] for i in batch])
        with _adding(attention, torch.tensor(places).T, total), reading(anatomy, last, end):
            anatomy.model(
                input_ids=pad_right([rows[i] for i in batch], anatomy.device), use_cache=False
            )
    count = sum(map(len, rows)) if positions is None else len(rows)
    return (total / count).float().unflatten(1, (attention.heads, attention.size))


@contextmanager
def _adding(attention: Attention, places: Tensor, total: Tensor) -> Iterator[None]:
    """While open, a forward adds what its projections are given at some tokens to `total`.

    places: [2, tokens], rows and columns. total: [layers, heads · size].
    """

    def note(layer: int) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            row, column = places.to(args[0].device)
            total[layer] += args[0][row, column].float().sum(dim=0).cpu()

        return hook

    with ExitStack() as stack:
        for layer, output in enumerate(attention.outputs):
            handle = output.projection.register_forward_pre_hook(note(layer))
            stack.callback(handle.remove)
        yield
