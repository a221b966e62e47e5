"""Attention weights of a few tokens: what each head of each layer looks at.

Only the eager implementation of attention makes weights. The model runs with it for as long as
they are read; of each layer only the tokens asked for are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.batches import TOKEN_BUDGET, by_length, pad_right

_PROBE_LENGTH = 4


class _Done(Exception):
    """The weights of the last layer are read: the rest of the forward is not needed."""


def weights_at(
    anatomy: Anatomy,
    rows: Sequence[Sequence[int]],
    positions: Sequence[int],
    done: Callable[[int], object] = lambda _: None,
    budget: int = TOKEN_BUDGET,
) -> list[Tensor]:
    """Weights of the token at `positions[i]` of row i: for each row [layers, heads, tokens].

    As :func:`weights_at_each` finds them.
    """
    places = [(position,) for position in positions]
    return [found[:, :, 0] for found in weights_at_each(anatomy, rows, places, done, budget)]


def weights_at_each(
    anatomy: Anatomy,
    rows: Sequence[Sequence[int]],
    positions: Sequence[Sequence[int]],
    done: Callable[[int], object] = lambda _: None,
    budget: int = TOKEN_BUDGET,
) -> list[Tensor]:
    """Weights of the tokens at `positions[i]`: for each row [layers, heads, positions, tokens].

    In float32, on the CPU. Over the tokens they sum to 1, or to less in models whose heads may
    attend to nothing (gpt-oss). `done` is told how many rows each forward finished. Raises
    :class:`UsageError` for a model that does not give weights for each of its layers.
    """
    found: dict[int, Tensor] = {}
    with _eager_attention(anatomy.model), torch.no_grad():
        sources = _sources(anatomy)
        for batch in by_length([len(row) for row in rows], budget):
            ids = pad_right([rows[i] for i in batch], anatomy.device)
            wanted, lengths = [positions[i] for i in batch], [len(rows[i]) for i in batch]
            with _reading(sources, wanted, lengths) as read:
                anatomy.model(input_ids=ids, use_cache=False, output_attentions=True)
            found.update(zip(batch, read, strict=True))
            done(len(batch))
    return [found[i] for i in range(len(rows))]


@contextmanager
def _eager_attention(model: PreTrainedModel) -> Iterator[None]:
    """Whatever implementation the configurations of the model's parts name is theirs again after.

    The model's own `set_attn_implementation` leaves out families that would follow (Falcon).
    """
    configs: dict[int, PreTrainedConfig] = {}
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            configs.setdefault(id(module.config), module.config)
    before = [config._attn_implementation for config in configs.values()]
    try:
        for config in configs.values():
            # Under the empty name, a configuration's own implementation, not that of parts of it.
            config._attn_implementation = {"": "eager"}
        yield
    finally:
        for config, implementation in zip(configs.values(), before, strict=True):
            config._attn_implementation = {"": implementation}


@dataclass(frozen=True)
class _Source:
    """The module in a decoder layer that hands on its heads' weights, and where in its output."""

    module: nn.Module
    place: int
    heads: int


def _sources(anatomy: Anatomy) -> list[_Source]:
    """Where each layer's weights arise: the first module to hand on what the model gives out."""
    seen: list[tuple[nn.Module, tuple[Any, ...]]] = []

    def note(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, tuple):
            seen.append((module, output))

    with ExitStack() as stack:
        for layer in anatomy.layers:
            for module in layer.modules():
                stack.callback(module.register_forward_hook(note).remove)
        ids = torch.arange(10, 10 + _PROBE_LENGTH, device=anatomy.device).unsqueeze(0)
        output = anatomy.model(input_ids=ids, use_cache=False, output_attentions=True)
    given = getattr(output, "attentions", None) or ()
    shape = (1, anatomy.model.config.get_text_config().num_attention_heads, *2 * [_PROBE_LENGTH])
    found = [_first_with(weights, seen) for weights in given if _are_weights(weights, shape)]
    sources = [source for source in found if source is not None]
    if len(sources) != len(anatomy.layers):
        raise UsageError(
            f"{type(anatomy.model).__name__} gives causal attention weights in {len(sources)} of "
            f"its {len(anatomy.layers)} layers, so that what its heads attend to (induction heads, "
            "attention to the demonstrations) cannot be computed. If it computes them at all, "
            "attn_implementation=eager in --model_args makes it do so."
        )
    return sources


def _are_weights(weights: Any, shape: tuple[int, ...]) -> bool:
    """Whether they are a tensor [1, heads, tokens, tokens] in which no token sees a later one."""
    return isinstance(weights, Tensor) and weights.shape == shape and not weights.triu(1).any()


def _first_with(
    weights: Tensor, outputs: Sequence[tuple[nn.Module, tuple[Any, ...]]]
) -> _Source | None:
    for module, output in outputs:
        for place, value in enumerate(output):
            if value is weights:
                return _Source(module, place, weights.shape[1])
    return None


@contextmanager
def _reading(
    sources: Sequence[_Source], positions: Sequence[Sequence[int]], tokens: Sequence[int]
) -> Iterator[list[Tensor]]:
    """While open, note weights in the next forward, which ends with the last layer's.

    positions, tokens: of each row, those to read, and how many it has. Yields one tensor per row,
    [layers, heads, positions, tokens], that this forward fills.
    """
    # Made beforehand: small blocks kept between the large ones of a forward would leave memory in
    # pieces too small for the next layer's.
    read = [
        torch.empty(len(sources), sources[0].heads, len(own), n, dtype=torch.float32)
        for own, n in zip(positions, tokens, strict=True)
    ]

    def note(layer: int, place: int) -> Any:
        def hook(_: nn.Module, __: Any, output: tuple[Any, ...]) -> tuple[Any, ...]:
            weights = output[place]
            for row, (own, n) in enumerate(zip(positions, tokens, strict=True)):
                read[row][layer] = weights[row, :, list(own), :n]
            if layer == len(sources) - 1:
                raise _Done
            # The model would keep those of all layers until it ends.
            return (*output[:place], weights[:1, :1, :1, :1].clone(), *output[place + 1 :])

        return hook

    with ExitStack() as stack:
        for layer, source in enumerate(sources):
            # Before the hooks by which the model collects its weights.
            hook = note(layer, source.place)
            handle = source.module.register_forward_hook(hook, prepend=True)
            stack.callback(handle.remove)
        stack.enter_context(suppress(_Done))
        yield read
