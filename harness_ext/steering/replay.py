"""A decoder layer's call taken apart: the modules it calls, and the layer run again with some held.

For finding a model's parts (:mod:`.attention`); nothing here runs while a model is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harness_ext.steering.anatomy import Anatomy, hidden_of

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def layer_calls(
    anatomy: Anatomy, ids: Sequence[int] = (10, 11, 12, 13)
) -> list[tuple[nn.Module, Arguments]]:
    """Each layer with the arguments it has in a forward over four tokens."""
    calls: list[tuple[nn.Module, Arguments]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((module, (args, kwargs)))

    handles = [layer.register_forward_pre_hook(note, with_kwargs=True) for layer in anatomy.layers]
    with removing(handles), torch.no_grad():
        anatomy.model(input_ids=torch.tensor([ids], device=anatomy.device), use_cache=False)
    return calls


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """One module's call in a layer: what it was given and what it returned.

    held: a copy of what it returned, which nothing can have changed in place since.
    """

    name: str
    module: nn.Module
    given: tuple[Tensor, ...]
    returned: Any
    held: Any

    @property
    def width_in(self) -> int:
        return self.given[0].shape[-1] if self.given else 0

    @property
    def width_out(self) -> int:
        return self.returned.shape[-1] if isinstance(self.returned, Tensor) else 0

    @property
    def has_matrix(self) -> bool:
        own = (*self.module.parameters(), *self.module.buffers())
        return any(each.dim() > 1 for each in own)

    @property
    def is_leaf(self) -> bool:
        """Whether the module does something itself, and does not only call others."""
        children = next(self.module.children(), None)
        return children is None or next(self.module.parameters(recurse=False), None) is not None


@dataclass(frozen=True, eq=False)
class LayerCall:
    """A layer's call: its arguments, and the calls within it in the order in which they began."""

    layer: nn.Module
    args: Arguments
    calls: list[ModuleCall]

    @classmethod
    def of(cls, layer: nn.Module, args: Arguments) -> LayerCall:
        calls: dict[int, ModuleCall] = {}
        began: list[tuple[Tensor, ...]] = []
        running: list[int] = []

        def begin(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            running.append(len(began))
            values = (*args, *kwargs.values())
            began.append(tuple(value for value in values if isinstance(value, Tensor)))

        def end(name: str) -> Any:
            def hook(module: nn.Module, _: Any, output: Any) -> None:
                number = running.pop()
                calls[number] = ModuleCall(name, module, began[number], output, _copied(output))

            return hook

        handles = []
        for name, module in layer.named_modules():
            if name:
                handles.append(module.register_forward_pre_hook(begin, with_kwargs=True))
                handles.append(module.register_forward_hook(end(name)))
        with removing(handles), torch.no_grad():
            layer(*args[0], **args[1])
        return cls(layer, args, [calls[number] for number in sorted(calls)])

    def replay(self, results: Mapping[int, Any]) -> Tensor:
        """The layer's hidden states, some calls (by their numbers) returning `results` instead."""
        by_module: dict[nn.Module, list[Any]] = {}
        for number, call in enumerate(self.calls):
            by_module.setdefault(call.module, []).append(results.get(number))

        def hook(module: nn.Module, _: Any, __: Any) -> Any:
            return _copied(by_module[module].pop(0))

        handles = [module.register_forward_hook(hook) for module in by_module]
        with removing(handles), torch.no_grad():
            return hidden_of(self.layer(*self.args[0], **self.args[1])).float()


def _copied(output: Any) -> Any:
    if isinstance(output, Tensor):
        return output.clone()
    return tuple(map(_copied, output)) if isinstance(output, tuple) else output


@contextmanager
def removing(handles: Sequence[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
