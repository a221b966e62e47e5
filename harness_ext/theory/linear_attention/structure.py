"""The structured weights of Theorems 1, 2 and 7: a few numbers per layer.

A, B, C are multiples of the identity and D is the same 2×2 or 3×3 block for every pair, another for
the query: diag(I_n ⊗ Λ1, Λ2) + I_{n+1} ⊗ Λ3 + Λ4 ⊗ Λ5. Rows of a block are the keys (tokens read),
columns the queries (tokens written to).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.model import Weights
from harness_ext.theory.linear_attention.prompts import TOKENS, Format

# Entries of D a layout's theorem leaves free, as (key, query) tokens of a pair. What the query's
# last token sends is hidden by the mask and left out.
PAIR_ENTRIES: dict[Format, tuple[tuple[int, int], ...]] = {
    "single": ((0, 0),),
    "pairwise": ((0, 0), (0, 1), (1, 0), (1, 1)),
    "triplet": ((0, 0), (0, 2), (2, 0), (2, 2)),
}
QUERY_ENTRIES: dict[Format, tuple[tuple[int, int], ...]] = {
    "single": (),
    "pairwise": ((0, 0), (0, 1)),
    "triplet": ((0, 0), (0, 2)),
}
ARROW = (1, 1)
INTO_ARROW = ((0, 1), (2, 1))


@dataclass(frozen=True)
class Blocks:
    """The structured numbers by meaning; D's entries are those of D/n. Batch dimensions come first.

    Attributes:
        scales: A, B, C as multiples of the identity, shape (*batch, L, 3).
        pair: Λ1, and Λ3 in the triplet's arrow, shape (*batch, L, T, T), T tokens per pair.
        query: Λ2 and Λ3 in the same way, shape (*batch, L, T, T).
        arrow: Λ5, from a pair's tokens to the arrows that Λ4 gives it, shape (*batch, L, T, T).
    """

    scales: Tensor
    pair: Tensor
    query: Tensor
    arrow: Tensor


@dataclass(frozen=True)
class Structure:
    """The structured set for a layout and a number of layers, as vectors of `size` numbers."""

    layout: Format
    layers: int

    def __post_init__(self) -> None:
        least = 1 if self.layout == "single" else 2
        if self.layers < least:
            raise UsageError(
                f"{self.layout} prompts need at least {least} layer(s), got {self.layers}"
                + (": the first one brings a pair together" if least > 1 else "")
            )

    @property
    def per_layer(self) -> int:
        """Numbers per layer."""
        arrow = 1 + len(INTO_ARROW) if self.layout == "triplet" else 0
        return 3 + len(PAIR_ENTRIES[self.layout]) + len(QUERY_ENTRIES[self.layout]) + arrow

    @property
    def size(self) -> int:
        """Numbers of all layers."""
        return self.layers * self.per_layer

    def blocks(self, numbers: Tensor) -> Blocks:
        """The numbers, shape (*batch, size), by meaning."""
        rows = numbers.unflatten(-1, (self.layers, self.per_layer))
        scales, rest = rows[..., :3], rows[..., 3:]
        pair_at, query_at = PAIR_ENTRIES[self.layout], QUERY_ENTRIES[self.layout]
        sizes = [len(pair_at), len(query_at), rest.shape[-1] - len(pair_at) - len(query_at)]
        of_pair, of_query, of_arrow = rest.split(sizes, -1)
        side = TOKENS[self.layout]
        pair = _block(of_pair, pair_at, side)
        query = _block(of_query, query_at, side)
        arrow = _block(of_arrow[..., 1:], INTO_ARROW if sizes[2] else (), side)
        if sizes[2]:
            shared = _block(of_arrow[..., :1], (ARROW,), side)
            pair, query = pair + shared, query + shared
        return Blocks(scales, pair, query, arrow)

    def weights(self, numbers: Tensor, n: int, d: int, mixing: Tensor | None = None) -> Weights:
        """The whole model's weights for n demonstrations in d dimensions.

        `mixing` is Λ4, shape (n + 1, n + 1) or (L, n + 1, n + 1): which pairs an arrow reads. By
        default every demonstration's arrow reads its own pair, and the query's reads none.
        """
        blocks = self.blocks(numbers)
        side, eye = TOKENS[self.layout], torch.eye(d, dtype=numbers.dtype)
        last = torch.zeros(n + 1, n + 1, dtype=numbers.dtype)
        last[n, n] = 1
        demonstrations = torch.eye(n + 1, dtype=numbers.dtype) - last
        position = (
            _kron(demonstrations, blocks.pair)
            + _kron(last, blocks.query)
            + _kron(demonstrations if mixing is None else mixing, blocks.arrow)
        )
        assert position.shape[-1] == side * (n + 1)
        upper, lower, content = (scale[..., None, None] * eye for scale in blocks.scales.unbind(-1))
        return Weights(upper, lower, content, n * position)

    def support(self, n: int) -> Tensor:
        """Where D may be other than zero, shape (p, p): True inside S_P, any Λ4 allowed."""
        side = TOKENS[self.layout]
        ones = torch.ones(n + 1, n + 1)
        mask = torch.kron(torch.eye(n + 1), _mask(PAIR_ENTRIES[self.layout], side))
        if self.layout == "triplet":
            mask = mask + torch.kron(torch.eye(n + 1), _mask((ARROW,), side))
            mask = mask + torch.kron(ones, _mask(INTO_ARROW, side))
        return mask > 0


def embedded(single: Tensor, layout: Format) -> Tensor:
    """Numbers of `layout` with one more layer that do what those of a single-token model do.

    The first layer moves y into the x token and the query's x into the last token, and clears the
    tokens they came from; the others then are the single-token model's. Shapes (size of single at
    L − 1,) to (size of `layout` at L,).
    """
    layers = single.shape[-1] // Structure("single", 1).size
    structure = Structure(layout, layers + 1)
    rows = single.new_zeros(layers + 1, structure.per_layer)
    last = TOKENS[layout] - 1
    pair, query = PAIR_ENTRIES[layout], QUERY_ENTRIES[layout]
    rows[0, :2] = 1
    # Upper and lower half mix by one matrix: y comes to x, and x goes to y's token with it.
    rows[0, 3 + pair.index((last, 0))] = 1
    rows[0, 3 + pair.index((last, last))] = -1
    rows[0, 3 + len(pair) + query.index((0, 0))] = -1
    rows[0, 3 + len(pair) + query.index((0, last))] = 1
    ours = single.unflatten(-1, (layers, -1))
    rows[1:, :3] = ours[:, :3]
    rows[1:, 3 + pair.index((0, 0))] = ours[:, 3]
    return rows.flatten()


def inseparable_weights(single: Tensor, layout: Format, n: int, d: int) -> Weights:
    """Theorem 7's weights for prompts with x and y in the lower half, from single-token numbers.

    The first layer lifts each x into the upper half of its y token, and the query's into the last
    one; x tokens, left without an upper half, are never attended to. The other layers are those
    of the single-token model, so the risk is its risk, one layer fewer.
    """
    layers = single.shape[-1] // Structure("single", 1).size
    structure = Structure(layout, layers + 1)
    last = TOKENS[layout] - 1
    pair, query = PAIR_ENTRIES[layout], QUERY_ENTRIES[layout]
    rows = single.new_zeros(layers + 1, structure.per_layer)
    rows[0, 3 + pair.index((0, last))] = 1
    rows[0, 3 + len(pair) + query.index((0, last))] = 1
    ours = single.unflatten(-1, (layers, -1))
    rows[1:, :3] = ours[:, :3]
    rows[1:, 3 + pair.index((last, last))] = ours[:, 3]
    lift = single.new_zeros(layers + 1, d, d)
    lift[0] = torch.eye(d, dtype=single.dtype)
    return structure.weights(rows.flatten(), n, d).map({"lift": lift})


def orthonormal_mixing(generator: torch.Generator, n: int) -> Tensor:
    """A random Λ4 with orthonormal first n rows and a zero last row, shape (n + 1, n + 1)."""
    rows, _ = torch.linalg.qr(torch.randn(n + 1, n + 1, generator=generator, dtype=torch.float64))
    rows[-1] = 0
    return rows


def _block(values: Tensor, entries: tuple[tuple[int, int], ...], side: int) -> Tensor:
    block = values.new_zeros(*values.shape[:-1], side, side)
    for k, (key, query) in enumerate(entries):
        block[..., key, query] = values[..., k]
    return block


def _mask(entries: tuple[tuple[int, int], ...], side: int) -> Tensor:
    return _block(torch.ones(len(entries)), entries, side)


def _kron(outer: Tensor, inner: Tensor) -> Tensor:
    """Kronecker product over the last two dimensions, with broadcasting before them."""
    product = outer[..., :, None, :, None] * inner[..., None, :, None, :]
    return product.flatten(-4, -3).flatten(-2, -1)
