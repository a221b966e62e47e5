"""What a cell costs, in prompts that the model reads."""

from __future__ import annotations

from dataclasses import dataclass

from harness_ext.config import SteeringConfig, parse_model_args
from harness_ext.grids.cells import Cell
from harness_ext.methods.selection import needs_development


@dataclass(frozen=True)
class Cost:
    """Prompts of a cell.

    tested: those that are answered. extraction: those that vectors or heads are read from.
    development: those that a layer or strength is chosen on; each is run with every candidate.
    Extraction and development prompts that an earlier cell of the task read are counted again,
    though they are not read again: this is the most a cell can cost.
    """

    tested: int
    extraction: int = 0
    development: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.tested + self.extraction + self.development


def cost(cell: Cell, documents: int) -> Cost:
    """The prompts of a cell with so many tested documents."""
    steering, _ = parse_model_args(cell.method.arguments)
    if not steering.steered or steering.vectors is not None:
        return Cost(documents)
    development = steering.dev if needs_development(steering) else 0
    return Cost(documents, _extraction(steering, documents, cell.shots), development)


def _extraction(steering: SteeringConfig, documents: int, shots: int) -> int:
    per_query = shots + 1 if steering.method == "tv_m" else 1
    return per_query * (steering.average or documents * steering.queries)
