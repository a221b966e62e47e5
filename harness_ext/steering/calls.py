"""Steering whole calls of a model, `model(...)` and `model.generate(...)`, as a user makes them."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.inject import Edit, Injection, inject


@dataclass(frozen=True, eq=False)
class Everywhere:
    """Injections into every row of every call.

    positions: a column per row of the ids given, or None for each row's last real token.
    """

    injections: Sequence[Injection]
    positions: Sequence[int] | None


@contextmanager
def steered_calls(anatomy: Anatomy, wanted: Everywhere) -> Iterator[None]:
    """While open, the model's calls carry the injections, after those of contexts opened before."""
    model = anatomy.model
    if model not in _open:
        _open[model] = _Calls(anatomy)
    calls = _open[model]
    calls.wanted.append(wanted)
    try:
        yield
    finally:
        calls.wanted.remove(wanted)
        if not calls.wanted:
            del _open[model]
            calls.undo()


def is_steered(model: PreTrainedModel) -> bool:
    """Whether :func:`steered_calls` is open for the model."""
    return model in _open


class _Calls:
    """A model's `forward` and `generate`, wrapped until :meth:`undo`.

    One wrapper serves all contexts open for the model, so that edits of one state come in the order
    in which the contexts were opened.
    """

    def __init__(self, anatomy: Anatomy) -> None:
        self.wanted: list[Everywhere] = []
        self._anatomy = anatomy
        self._within = False
        self._stack = ExitStack()
        for name in ("forward", "generate"):
            if hasattr(anatomy.model, name):
                self._stack.enter_context(_replaced(anatomy.model, name, self._steered))
        self.undo = self._stack.close

    def _steered(self, call: Callable[..., Any]) -> Callable[..., Any]:
        names = list(inspect.signature(call).parameters)

        @functools.wraps(call)
        def steered(*args: Any, **kwargs: Any) -> Any:
            # The forwards of a generation are not calls of their own.
            if self._within:
                return call(*args, **kwargs)
            batch = _Batch.of({**dict(zip(names, args, strict=False)), **kwargs})
            edits = [
                Edit(row, column, injection)
                for wanted in self.wanted
                for row, column in enumerate(batch.columns(wanted.positions))
                for injection in wanted.injections
            ]
            self._within = True
            try:
                # Of a generation's forwards, `inject` sees how many tokens a cache holds, and
                # edits the prompt alone. The hook by which it does comes too late for a forward
                # that is called directly: there positions count from the first token given.
                with inject(self._anatomy, edits, batch.rows):
                    return call(*args, **kwargs)
            finally:
                self._within = False

        return steered


_open: weakref.WeakKeyDictionary[PreTrainedModel, _Calls] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class _Batch:
    """The rows a call is given, each of `width` tokens. mask: [rows, width], 1 on real tokens."""

    rows: int
    width: int
    mask: Tensor | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> _Batch:
        """From a call's arguments by their names."""
        found = [given.get(name) for name in ("inputs_embeds", "input_ids", "inputs")]
        tokens = next((value for value in found if isinstance(value, Tensor)), None)
        if tokens is None or tokens.dim() < 2:
            raise UsageError(
                "the call has no batch of tokens to inject into; pass input_ids [rows, tokens] (or "
                "inputs_embeds) while inject is open."
            )
        rows, width = tokens.shape[:2]
        mask = given.get("attention_mask")
        if mask is None:
            return cls(rows, width, None)
        if not isinstance(mask, Tensor) or mask.dim() != 2:
            raise UsageError(
                "attention_mask is not [rows, tokens], so it does not say where each row ends; "
                "pass such a mask or none."
            )
        if mask.shape[0] != rows or mask.shape[1] < width:
            raise UsageError(
                f"attention_mask {list(mask.shape)} does not fit a batch of {rows} rows and "
                f"{width} tokens."
            )
        # A mask covers cached tokens too; the call's own come last.
        return cls(rows, width, mask[:, -width:])

    def columns(self, positions: Sequence[int] | None) -> list[int]:
        """A column per row: those given, or that of the last real token."""
        if positions is not None:
            if len(positions) != self.rows or not all(0 <= p < self.width for p in positions):
                raise UsageError(
                    f"positions={list(positions)} does not fit a batch of {self.rows} rows and "
                    f"{self.width} tokens; it takes one column per row, from 0 to "
                    f"{self.width - 1}, padding counted."
                )
            return list(positions)
        if self.mask is None:
            return [self.width - 1] * self.rows
        real = self.mask.bool()
        if not real.any(dim=1).all():
            raise UsageError(
                f"row {int((~real.any(dim=1)).nonzero()[0])} has no real token by its "
                "attention_mask, so there is no place to inject at."
            )
        last: list[int] = (self.width - 1 - real.int().flip(1).argmax(dim=1)).tolist()
        return last


@contextmanager
def _replaced(
    model: PreTrainedModel, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """While open, the model's own method of that name goes through `wrap`."""
    before = vars(model).get(name)
    setattr(model, name, wrap(getattr(model, name)))
    try:
        yield
    finally:
        delattr(model, name)
        if before is not None:
            setattr(model, name, before)
