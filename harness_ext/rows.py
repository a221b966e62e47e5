"""Which row of a batch carries which injection, and which rows run without some heads.

lm-eval's Hugging Face model reduces requests to token rows, sorts and batches them, and answers
equal rows once. Rows are therefore told apart by their token ids, and requests go through it in
waves, in each of which equal ids mean the same edits; two tasks, or two draws, that share a prompt
but not a vector land in different waves. All rows of a wave run without the same heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from harness_ext.heads.ablate import Ablation
from harness_ext.steering.inject import Edit, Injection

Key = tuple[int, ...]


@dataclass(frozen=True)
class RowPlan:
    """The token ids a request is run with, and what is done to them.

    edits: (index of the token, injection), in the unpadded row. cues: indices of the tokens that
    are steered. ablation: heads that are knocked out.
    """

    ids: tuple[int, ...]
    edits: tuple[tuple[int, Injection], ...]
    cues: tuple[int, ...] = ()
    ablation: Ablation | None = None

    @property
    def key(self) -> Key:
        """What tells the row apart once it is padded with zeros on the right."""
        return _strip(self.ids)

    def same_edits(self, other: RowPlan) -> bool:
        """Whether both rows carry the very same injections at the same places."""
        return (self.cues, len(self.edits)) == (other.cues, len(other.edits)) and all(
            a == b and x is y for (a, x), (b, y) in zip(self.edits, other.edits, strict=True)
        )


@dataclass(frozen=True)
class Wave:
    """Requests that may run together: their numbers, and the plan of every row among them."""

    requests: list[int]
    plans: dict[Key, RowPlan]
    ablation: Ablation | None = None

    def edits(self, ids: Tensor, mask: Tensor | None = None) -> list[Edit]:
        """The edits for a batch of token ids [rows, width], padded on either side.

        mask: [rows, width], 1 on real tokens; without one, zeros on the right are padding. Raises
        RuntimeError for a row that nobody planned: running it plain would be a silent no-op.
        """
        return [
            Edit(number, offset + index, injection)
            for number, offset, plan in self._rows(ids, mask)
            for index, injection in plan.edits
        ]

    def cues(self, ids: Tensor, mask: Tensor | None = None) -> list[tuple[int, int]]:
        """The steered tokens of such a batch, as (row, position)."""
        return [
            (number, offset + index)
            for number, offset, plan in self._rows(ids, mask)
            for index in plan.cues
        ]

    def _rows(self, ids: Tensor, mask: Tensor | None) -> Iterator[tuple[int, int, RowPlan]]:
        """Each row's number, the padding on its left, and its plan."""
        for number, row in enumerate(ids.tolist()):
            offset = 0
            if mask is not None:
                real = mask[number].nonzero().flatten().tolist()
                offset, row = real[0], row[real[0] : real[-1] + 1]
            plan = self.plans.get(_strip(row))
            if plan is None:
                raise RuntimeError(f"a row of {len(row)} tokens was run that no request planned")
            yield number, offset, plan


def waves(plans: Sequence[RowPlan]) -> list[Wave]:
    """Distribute requests (by their plans) over as few waves as first fit finds, in their order."""
    found: list[Wave] = []
    for number, plan in enumerate(plans):
        for wave in found:
            known = wave.plans.get(plan.key)
            same = known is None or known.same_edits(plan)
            if same and wave.ablation is plan.ablation:
                break
        else:
            wave = Wave([], {}, plan.ablation)
            found.append(wave)
        wave.requests.append(number)
        wave.plans.setdefault(plan.key, plan)
    return found


def _strip(ids: Sequence[int]) -> Key:
    end = len(ids)
    while end and ids[end - 1] == 0:
        end -= 1
    return tuple(ids[:end])
