"""What every attention head adds to the residual stream at one token of each row.

A head's contribution is its slice of the output projection's input, alone through the projection
and, where the family has them, through the norms that follow, under the scale they have for the
whole. All heads' contributions and what biases add sum to what attention adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from harness_ext.steering.attention import Attention, Output
from harness_ext.steering.batches import TOKEN_BUDGET, by_length, pad_right
from harness_ext.steering.capture import reading


def head_outputs(
    attention: Attention,
    rows: Sequence[Sequence[int]],
    positions: Sequence[int] | None = None,
    done: Callable[[int], object] = lambda _: None,
    budget: int = TOKEN_BUDGET,
) -> Tensor:
    """Every head's contribution [rows, layers, heads, width], in float32, at one token of each row.

    positions: the index of each row's token, by default its last. One forward of each row, without
    logits; `done` is told how many rows each forward finished.
    """
    places = [len(row) - 1 for row in rows] if positions is None else list(positions)
    shape = (len(rows), attention.layers, attention.heads, attention.anatomy.hidden_size)
    found = torch.empty(shape)
    for batch in by_length([len(row) for row in rows], budget):
        ids = pad_right([rows[i] for i in batch], attention.anatomy.device)
        taken = _run(attention, ids, torch.tensor([places[i] for i in batch]))
        for layer, (output, values) in enumerate(zip(attention.outputs, taken, strict=True)):
            found[batch, layer] = _contributions(output, values, attention.heads).cpu()
        done(len(batch))
    return found


def _run(attention: Attention, ids: Tensor, positions: Tensor) -> list[list[Tensor]]:
    """Per layer: the projection's input at each row's position, then what each norm is given and
    returns there, all [rows, …]."""
    last = [len(attention.outputs) - 1]
    with (
        _noting(attention, positions) as taken,
        reading(attention.anatomy, last, positions.unsqueeze(1)),
    ):
        attention.anatomy.model(input_ids=ids, use_cache=False)
    return taken


@contextmanager
def _noting(attention: Attention, positions: Tensor) -> Iterator[list[list[Tensor]]]:
    taken: list[list[Tensor]] = [[] for _ in attention.outputs]

    def at(values: Tensor) -> Tensor:
        rows = torch.arange(len(positions), device=values.device)
        return values[rows, positions.to(values.device)].clone()

    def given(layer: int) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            taken[layer].append(at(args[0]))

        return hook

    def normed(layer: int) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            taken[layer] += [at(args[0]), at(output)]

        return hook

    with ExitStack() as stack:
        for layer, output in enumerate(attention.outputs):
            handle = output.projection.register_forward_pre_hook(given(layer))
            stack.callback(handle.remove)
            for norm in output.norms:
                stack.callback(norm.module.register_forward_hook(normed(layer)).remove)
        yield taken


@torch.no_grad()
def _contributions(output: Output, taken: Sequence[Tensor], heads: int) -> Tensor:
    """[rows, heads, width], in float32, from what :func:`_run` took in one layer."""
    inputs, *norms = taken
    rows, width = inputs.shape
    apart = torch.eye(heads, dtype=inputs.dtype, device=inputs.device)
    apart = apart.repeat_interleave(width // heads, dim=1)  # [heads, heads · size]
    alone = torch.cat([(inputs.unsqueeze(1) * apart).flatten(0, 1), inputs.new_zeros(1, width)])
    projected = output.projection(alone).float()
    parts = (projected[:-1] - projected[-1]).unflatten(0, (rows, heads))
    for number, norm in enumerate(output.norms):
        whole, normed = norms[2 * number], norms[2 * number + 1]
        parts = norm.share(parts, whole.float(), normed.float())
    return output.scale * parts
