"""Reading states of the residual stream: those asked for, and nothing else."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from harness_ext.steering.anatomy import Anatomy, hidden_of
from harness_ext.steering.batches import TOKEN_BUDGET, by_length, of_equal_shape, pad_right
from harness_ext.steering.prefix import run_prefix
from harness_ext.steering.trial import Flaws, flaw

_flaws: Flaws = weakref.WeakKeyDictionary()


class _Done(Exception):
    """The last layer asked for has run: the rest of the forward is not needed."""


def last_states(
    anatomy: Anatomy,
    rows: Sequence[Sequence[int]],
    layers: Sequence[int],
    done: Callable[[int], object] = lambda _: None,
    budget: int = TOKEN_BUDGET,
) -> Tensor:
    """States of each row's last token after each of `layers`: [rows, layers, width].

    As :func:`states_at` finds them.
    """
    last = [(len(row) - 1,) for row in rows]
    return states_at(anatomy, rows, last, layers, done, budget)[:, :, 0]


def states_at(
    anatomy: Anatomy,
    rows: Sequence[Sequence[int]],
    positions: Sequence[Sequence[int]],
    layers: Sequence[int],
    done: Callable[[int], object] = lambda _: None,
    budget: int = TOKEN_BUDGET,
) -> Tensor:
    """States at `positions[i]` of row i (equally many in each): [rows, layers, positions, width].

    A forward ends after the last layer asked for; logits are never computed, and of every layer
    only the states asked for are kept. `done` is told how many rows each forward finished.
    """
    if not rows:
        return torch.empty(0, len(layers), 1, anatomy.hidden_size)
    states: dict[int, Tensor] = {}
    for batch in by_length([len(row) for row in rows], budget):
        wanted = torch.tensor([positions[i] for i in batch])
        ids = pad_right([rows[i] for i in batch], anatomy.device)
        with reading(anatomy, layers, wanted) as read:
            anatomy.model(input_ids=ids, use_cache=False)
        states.update(zip(batch, _stack(read, layers), strict=True))
        done(len(batch))
    return torch.stack([states[i] for i in range(len(rows))])


def branched_states(
    anatomy: Anatomy,
    stems: Sequence[Sequence[int]],
    branches: Sequence[Sequence[Sequence[int]]],
    layers: Sequence[int],
    done: Callable[[int], object] = lambda _: None,
    budget: int = TOKEN_BUDGET,
) -> Tensor:
    """States at the end of several continuations of common stems: [stems, branches, layers, width].

    Stem i, the demonstrations of a prompt, runs once; its `branches[i]` (equally many for every
    stem), the dummy queries, run on its cached keys and values. `done` is told how many stems each
    forward finished. A model whose cache cannot serve several continuations (recurrent layers, say)
    runs whole rows instead; that is tried on the first stems a model is given, and said in the log.
    """
    check = partial(_disagreement, anatomy, stems[:2], branches[:2])
    instead = (
        "several dummy queries run a whole prompt each; its cache cannot be shared by continuations"
    )
    if flaw(_flaws, anatomy.model, "shared", check, instead) is None:
        return _branched(anatomy, stems, branches, layers, done, budget)
    whole = _whole_rows(stems, branches)
    states = last_states(anatomy, whole, layers, budget=budget)
    done(len(stems))
    return states.unflatten(0, (len(stems), len(branches[0])))


def _whole_rows(
    stems: Sequence[Sequence[int]], branches: Sequence[Sequence[Sequence[int]]]
) -> list[list[int]]:
    return [[*stem, *row] for stem, own in zip(stems, branches, strict=True) for row in own]


def _disagreement(
    anatomy: Anatomy, stems: Sequence[Sequence[int]], branches: Sequence[Sequence[Sequence[int]]]
) -> str | None:
    """How states differ when these continuations share a cached beginning, or None."""
    layers = [len(anatomy.layers) - 1]
    found = _branched(anatomy, stems, branches, layers, lambda _: None, TOKEN_BUDGET)
    expected = last_states(anatomy, _whole_rows(stems, branches), layers)
    gap = (found.flatten(0, 1) - expected).norm() / expected.norm()
    tolerance = 1e-3 if anatomy.model.dtype == torch.float32 else 0.1
    return None if gap <= tolerance else f"states differ by {gap:.2g} of their norm"


def _branched(
    anatomy: Anatomy,
    stems: Sequence[Sequence[int]],
    branches: Sequence[Sequence[Sequence[int]]],
    layers: Sequence[int],
    done: Callable[[int], object],
    budget: int,
) -> Tensor:
    per_stem = len(branches[0])
    states: dict[int, Tensor] = {}
    lengths = [len(stem) for stem in stems]
    whole = [n + per_stem * max(map(len, own)) for n, own in zip(lengths, branches, strict=True)]
    for batch in of_equal_shape(whole, lengths, budget):
        cache = run_prefix(anatomy, [stems[i] for i in batch])
        cache.batch_repeat_interleave(per_stem)
        rows = [row for i in batch for row in branches[i]]
        ids = pad_right(rows, anatomy.device)
        last = torch.tensor([[len(row) - 1] for row in rows])
        with reading(anatomy, layers, last) as read:
            anatomy.model(input_ids=ids, use_cache=True, **{anatomy.cache_argument: cache})
        found = _stack(read, layers)[:, :, 0]
        states.update(zip(batch, found.unflatten(0, (len(batch), per_stem)), strict=True))
        done(len(batch))
    return torch.stack([states[i] for i in range(len(stems))])


@contextmanager
def reading(
    anatomy: Anatomy, layers: Sequence[int], positions: Tensor
) -> Iterator[dict[int, Tensor]]:
    """While open, note states after each of `layers` at some columns per row of the next forward.

    positions: [rows, columns]. Yields a dictionary that fills with layer → states [rows, columns,
    width]; the forward ends, by an exception that this context absorbs, once the last of `layers`
    has run.
    """
    read: dict[int, Tensor] = {}
    final = max(layers)

    def note(layer: int) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            hidden = hidden_of(output)
            rows = torch.arange(len(positions), device=hidden.device).unsqueeze(1)
            read[layer] = hidden[rows, positions.to(hidden.device)].clone()
            if layer == final:
                raise _Done

        return hook

    with ExitStack() as stack:
        for layer in layers:
            handle = anatomy.layers[layer].register_forward_hook(note(layer))
            stack.callback(handle.remove)
        stack.enter_context(torch.no_grad())
        stack.enter_context(suppress(_Done))
        yield read


def _stack(read: dict[int, Tensor], layers: Sequence[int]) -> Tensor:
    return torch.stack([read[layer].to(read[layers[0]].device) for layer in layers], dim=1)
