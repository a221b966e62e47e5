"""Proposition 6 of Dong et al. 2026: an EOS token is worth a second head of twice the width.

With EOS, a one-head model of width m reads the tokens z_1 … z_N and writes its answer into a last
token, EOS, that no token reads. Without it, the two-head model of width 2m keeps EOS in the second
half of the last real token: z̃_t = [z_t; 0] for t < N, z̃_N = [z_N; e], e the embedding of EOS.

* Head 1 does to the first halves what the layer does to the real tokens: V and Q act on them alone.
* Head 2 does to the second half of the last token what the layer does to EOS: V reads first halves
  and writes into second ones, Q meets keys' first halves with queries' second halves, and position
  terms that only the last token's query has stand for EOS's own.

Second halves of the other tokens stay 0: no position term and no content reaches them. The last
token must be a key in the model without EOS, as it is one with EOS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-10
APART = 1e-4


@dataclass(frozen=True)
class Head:
    """One head of one layer, for states of width w and p positions.

    Attributes:
        value: V, shape (w, w).
        content: keys' by queries' states, shape (w, w).
        key_position: keys' positions by queries' states, shape (p, w).
        query_position: keys' states by queries' positions, shape (w, p).
        position: keys' by queries' positions, shape (p, p).
    """

    value: Tensor
    content: Tensor
    key_position: Tensor
    query_position: Tensor
    position: Tensor

    def transposed(self) -> Head:
        """Keys and queries exchanged in the content."""
        return replace(self, content=self.content.T)

    def without_positions(self) -> Head:
        """Attention by content alone."""
        zeros = {name: torch.zeros_like(getattr(self, name)) for name in POSITION_TERMS}
        return replace(self, **zeros)

    def silent(self) -> Head:
        """A head that writes nothing."""
        return replace(self, value=torch.zeros_like(self.value))


POSITION_TERMS = ("key_position", "query_position", "position")

Layer = tuple[Head, ...]


def run_heads(layers: Sequence[Layer], state: Tensor, keys: int, scale: float) -> Tensor:
    """The last state, shape (prompts, w, p): each layer adds scale · Σ_heads V Z M Zaugᵀ Q Zaug.

    Args:
        layers: heads by layer.
        state: shape (prompts, w, p).
        keys: how many tokens, from the first on, are read: p, or p − 1 to hide the last.
        scale: 1/n in the model of the paper.
    """
    for heads in layers:
        read = state[..., :keys]
        change = torch.zeros_like(state)
        for head in heads:
            scores = (
                read.mT @ head.content @ state
                + head.key_position[:keys] @ state
                + read.mT @ head.query_position
                + head.position[:keys]
            )
            change = change + head.value @ read @ scores
        state = state + scale * change
    return state


def random_head(generator: torch.Generator, width: int, positions: int, full: bool) -> Head:
    """A random head: V = diag(A, B), Q = diag(C, 0, D) as in the paper, or with no zero blocks."""

    def gaussian(rows: int, columns: int) -> Tensor:
        values = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
        return values / columns**0.5

    value, content = gaussian(width, width), gaussian(width, width)
    to_state, to_position = gaussian(positions, width), gaussian(width, positions)
    position = gaussian(positions, positions)
    if not full:
        half = width // 2
        value[:half, half:] = value[half:, :half] = 0
        content[half:] = content[:, half:] = 0
        to_state, to_position = torch.zeros_like(to_state), torch.zeros_like(to_position)
    return Head(value, content, to_state, to_position, position)


def two_heads(head: Head) -> Layer:
    """The two heads of width 2m, on one position less, that do what this one does with EOS."""
    real = head.position.shape[0] - 1
    zero = torch.zeros_like(head.value)

    def corner(block: Tensor, row: int, column: int) -> Tensor:
        blocks = [[zero, zero], [zero, zero]]
        blocks[row][column] = block
        return torch.cat([torch.cat(row_, 1) for row_ in blocks])

    def last(column: Tensor) -> Tensor:
        alone = column.new_zeros(column.shape[0], real)
        alone[:, -1] = column
        return alone

    none = head.key_position.new_zeros(real, zero.shape[0])
    empty = torch.zeros_like(head.query_position[:, :real])
    first = Head(
        corner(head.value, 0, 0),
        corner(head.content, 0, 0),
        torch.cat([head.key_position[:real], none], 1),
        torch.cat([head.query_position[:, :real], empty]),
        head.position[:real, :real],
    )
    second = Head(
        corner(head.value, 1, 0),
        corner(head.content, 0, 1),
        torch.cat([none, head.key_position[:real]], 1),
        torch.cat([last(head.query_position[:, real]), empty]),
        last(head.position[:real, real]),
    )
    return first, second


class EosEquivalence(Check):
    """Proposition 6: outputs with EOS against those of the constructed model without."""

    name = "eos-equivalence"
    title = "An EOS token is worth a second head"
    claims = (
        Claim(
            "equal-outputs",
            "Every L-layer one-head model with an EOS token equals a two-head model of twice the "
            "width without one.",
            "Dong et al. 2026 (arXiv 2506.09048), Proposition 6",
            "greatest difference between the answers of a random model and of the one constructed "
            "from it, over the greatest answer; blocks as in the paper, and no block zero",
            "1e-10: float64 sums of a few thousand terms of both signs; a wrong construction (one "
            "head silent, keys and queries of head 2 exchanged, position terms left out, last "
            "token hidden from the keys) is off by more than 1e-4, a million times that bound and "
            "a hundredth of what one of 92 tokens weighs",
            "holds",
        ),
    )

    def cells(self, preset: Preset) -> list[Cell]:
        quick = preset.name == "quick"
        seeds = preset.seeds or (5 if quick else 50)
        return [
            Cell(self.name, dict(layers=layers, n=n, d=4, full=full, prompts=50, seed=seed))
            for layers in ((2, 3) if quick else (2, 3, 4))
            for n in ((5,) if quick else (5, 15, 30))
            for full in (False, True)
            for seed in range(seeds)
        ]

    def measure(self, cell: Cell) -> dict[str, Any]:
        return differences(**cell.settings)

    def judge(self, measured: Measured) -> list[Finding]:
        ours = max(m["construction"] for _, m in measured)
        names = [name for name in measured[0][1] if name != "construction"]
        controls = {name: min(m[name] for _, m in measured) for name in names}
        return [
            Finding(
                "equal-outputs",
                verdict(ours <= ROUNDING, min(controls.values()) > APART),
                f"answers differ by at most {ours:.1e} of the greatest, in {len(measured)} models",
                "at least: " + ", ".join(f"{name} {low:.2g}" for name, low in controls.items()),
                {"construction": ours, "controls": controls},
            )
        ]

    def draw(self, measured: Measured, figure: Figure) -> None:
        figure.set_size_inches(10, 4.5)
        axes = figure.subplots()
        names = list(measured[0][1])
        kinds = sorted({(c.settings["layers"], c.settings["full"]) for c, _ in measured})
        for k, (layers, full) in enumerate(kinds):
            own = [
                m
                for c, m in measured
                if (c.settings["layers"], c.settings["full"]) == (layers, full)
            ]
            for place, name in enumerate(names):
                axes.plot(
                    [place + 0.12 * (k - (len(kinds) - 1) / 2)] * len(own),
                    [max(m[name], 1e-18) for m in own],
                    "os"[full],
                    color=f"C{layers}",
                    fillstyle="none",
                    markersize=4,
                    label=f"L = {layers}, {'no block zero' if full else 'blocks of the paper'}"
                    if place == 0
                    else None,
                )
        axes.axhline(ROUNDING, color="grey", linestyle=":", linewidth=0.8)
        axes.axhline(APART, color="grey", linestyle=":", linewidth=0.8)
        axes.set_yscale("log")
        axes.set_xticks(range(len(names)), names)
        axes.set(
            title="With EOS and one head against two heads without: constructed, and broken",
            ylabel="greatest difference of answers,\nover the greatest answer (0 drawn as 1e-18)",
        )
        axes.legend(fontsize=8, loc="center right")


def differences(
    layers: int, n: int, d: int, full: bool, prompts: int, seed: int
) -> dict[str, float]:
    """Relative differences of the answers: of the construction and of broken ones.

    Raises UsageError for fewer than 2 layers (the answer of one layer needs no head 1) or n < 1.
    """
    if layers < 2 or n < 1:
        raise UsageError(
            f"layers is {layers} and n is {n}; this check needs at least 2 layers, below which "
            "head 1 does not reach the answer, and n of at least 1"
        )
    generator = torch.Generator().manual_seed(seed)
    width, real = 2 * d, 3 * n + 2
    one = [random_head(generator, width, real + 1, full) for _ in range(layers)]
    state = torch.randn(prompts, width, real, generator=generator, dtype=torch.float64)
    eos = torch.randn(width, generator=generator, dtype=torch.float64)
    with_eos = torch.cat([state, eos.expand(prompts, width)[..., None]], -1)
    scale = 1 / real
    answer = run_heads([(head,) for head in one], with_eos, real, scale)[:, d:, -1]

    wide = torch.cat([state, torch.zeros_like(state)], 1)
    wide[:, width:, -1] = eos
    pairs = [two_heads(head) for head in one]
    models: dict[str, tuple[Sequence[Layer], int]] = {
        "construction": (pairs, real),
        "head 1 silent": ([(a.silent(), b) for a, b in pairs], real),
        "head 2 silent": ([(a, b.silent()) for a, b in pairs], real),
        "head 2 transposed": ([(a, b.transposed()) for a, b in pairs], real),
        "no positions": ([(a.without_positions(), b.without_positions()) for a, b in pairs], real),
        "last key hidden": (pairs, real - 1),
    }
    return {
        name: (
            (run_heads(model, wide, keys, scale)[:, width + d :, -1] - answer).abs().max()
            / answer.abs().max()
        ).item()
        for name, (model, keys) in models.items()
    }
