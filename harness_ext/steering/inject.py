"""Writing vectors into the residual stream while a model runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import Cache

from harness_ext.steering.anatomy import Anatomy, hidden_of, with_hidden


@dataclass(frozen=True, eq=False)
class Injection:
    """One vector [width] for the state after `layer` (or one for each of several states).

    `strength` None replaces the state by the vector (Hendel et al. 2023; Dong et al. 2026); a
    number adds strength · vector to it (vector arithmetic).
    """

    layer: int
    vector: Tensor
    strength: float | None = None

    def apply(self, state: Tensor) -> Tensor:
        """The state(s) [..., width] after the injection."""
        vector = self.vector.to(device=state.device, dtype=state.dtype)
        if self.strength is None:
            return vector.expand_as(state)
        return state + self.strength * vector


@dataclass(frozen=True)
class Edit:
    """An injection into one row of a batch, at an absolute position of that (padded) row."""

    row: int
    position: int
    injection: Injection


@contextmanager
def inject(anatomy: Anatomy, edits: Sequence[Edit], rows: int) -> Iterator[None]:
    """While open, every forward of the model over `rows` rows carries `edits`.

    Positions count from the start of the sequence, padding included. With a key-value cache a
    forward covers only the positions after the cached ones, so that in generation an edit of the
    prompt happens once; without one the same positions are edited in every forward, and the two
    agree. A batch that is a multiple of `rows` is taken as each row repeated in place (beams).
    The hooks are gone when the context closes, also after an exception.
    """
    start = Start()
    by_layer: Mapping[int, list[Edit]] = defaultdict(list)
    for edit in edits:
        by_layer[edit.injection.layer].append(edit)
    with ExitStack() as stack:
        handle = anatomy.model.register_forward_pre_hook(start.note, with_kwargs=True)
        stack.callback(handle.remove)
        for layer, wanted in by_layer.items():
            hook = _write(tuple(wanted), rows, start)
            stack.callback(anatomy.layers[layer].register_forward_hook(hook).remove)
        yield


class Start:
    """First position that the running forward covers: the number of cached ones."""

    position = 0

    def note(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        caches = [value for value in (*args, *kwargs.values()) if isinstance(value, Cache)]
        self.position = int(caches[0].get_seq_length()) if caches else 0

    def reached(self, positions: Sequence[int], tokens: int) -> list[tuple[int, int]]:
        """The positions among the `tokens` that the running forward covers, as (index, column)."""
        columns = [position - self.position for position in positions]
        return [(index, column) for index, column in enumerate(columns) if 0 <= column < tokens]


def copies_of(rows: int, batch: int) -> int:
    """How often each planned row stands in a batch. Raises RuntimeError where it does not fit."""
    copies, rest = divmod(batch, rows)
    if rest:
        raise RuntimeError(f"planned for {rows} rows, but the model runs {batch}")
    return copies


def _write(edits: tuple[Edit, ...], rows: int, start: Start) -> Any:
    positions = [edit.position for edit in edits]

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        hidden = hidden_of(output)
        copies = copies_of(rows, hidden.shape[0])
        here = start.reached(positions, hidden.shape[1])
        if not here:
            return output
        hidden = hidden.clone()
        for index, column in here:
            row, injection = edits[index].row, edits[index].injection
            own = slice(row * copies, (row + 1) * copies)
            hidden[own, column] = injection.apply(hidden[own, column])
        return with_hidden(output, hidden)

    return hook
