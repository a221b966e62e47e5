"""Which row of a batch carries which injection.

lm-eval's Hugging Face model reduces requests to token rows, sorts and batches them, and answers
equal rows once. Rows are therefore told apart by their token ids, and requests go through it in
waves, in each of which equal ids mean the same edits; two tasks, or two draws, that share a prompt
but not a vector land in different waves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from harness_ext.steering.inject import Edit, Injection

Key = tuple[int, ...]


@dataclass(frozen=True)
class RowPlan:
    """The token ids a request is run with, and the injections into them.

    edits: (index of the token, injection), in the unpadded row.
    """

    ids: tuple[int, ...]
    edits: tuple[tuple[int, Injection], ...]

    @property
    def key(self) -> Key:
        """What tells the row apart once it is padded with zeros on the right."""
        return _strip(self.ids)

    def same_edits(self, other: RowPlan) -> bool:
        """Whether both rows carry the very same injections at the same places."""
        return len(self.edits) == len(other.edits) and all(
            a == b and x is y for (a, x), (b, y) in zip(self.edits, other.edits, strict=True)
        )


@dataclass(frozen=True)
class Wave:
    """Requests that may run together: their numbers, and the plan of every row among them."""

    requests: list[int]
    plans: dict[Key, RowPlan]

    def edits(self, ids: Tensor, mask: Tensor | None = None) -> list[Edit]:
        """The edits for a batch of token ids [rows, width], padded on either side.

        mask: [rows, width], 1 on real tokens; without one, zeros on the right are padding. Raises
        RuntimeError for a row that nobody planned: running it plain would be a silent no-op.
        """
        found = []
        for number, row in enumerate(ids.tolist()):
            offset = 0
            if mask is not None:
                real = mask[number].nonzero().flatten().tolist()
                offset, row = real[0], row[real[0] : real[-1] + 1]
            plan = self.plans.get(_strip(row))
            if plan is None:
                raise RuntimeError(f"a row of {len(row)} tokens was run that no request planned")
            found += [Edit(number, offset + index, injection) for index, injection in plan.edits]
        return found


def waves(plans: Sequence[RowPlan]) -> list[Wave]:
    """Distribute requests (by their plans) over as few waves as first fit finds, in their order."""
    found: list[Wave] = []
    for number, plan in enumerate(plans):
        for wave in found:
            known = wave.plans.get(plan.key)
            if known is None or known.same_edits(plan):
                break
        else:
            wave = Wave([], {})
            found.append(wave)
        wave.requests.append(number)
        wave.plans.setdefault(plan.key, plan)
    return found


def _strip(ids: Sequence[int]) -> Key:
    end = len(ids)
    while end and ids[end - 1] == 0:
        end -= 1
    return tuple(ids[:end])
