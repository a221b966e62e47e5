"""Settings below what a claim needs, as a user of the library can give them."""

from __future__ import annotations

import pytest

from harness_ext.errors import UsageError
from harness_ext.theory import Cell, Preset, select


@pytest.mark.parametrize(
    ("name", "of", "changed", "message"),
    [
        ("critical-points", {"part": "gradient"}, {"n": 1}, "n is 1; permuting demonstrations"),
        (
            "critical-points",
            {"layout": "pairwise", "separable": True},
            {"layers": 3},
            "layers is 3; the optimum of pairwise prompts",
        ),
        ("critical-points", {"part": "training"}, {"layers": 1}, "need at least 2 layer"),
        ("risk-ordering", {"layout": "single"}, {"n": 2}, "n is 2, below d = 4"),
        ("risk-ordering", {"layout": "single"}, {"layers": 0}, "at least 1 layer"),
        ("weight-orthogonality", {}, {"n": 1}, "n is 1; orthogonality"),
        ("one-shot-equivalence", {}, {"layers": 1}, "layers is 1 and n is 5"),
        ("one-shot-equivalence", {}, {"n": 3}, "layers is 2 and n is 3"),
        ("rank-one", {}, {"n": 1}, "n is 1; showing a map and its inverse"),
        ("dropout-weights", {"part": "exact"}, {"n": 1}, "n is 1; weighing demonstrations"),
        ("dropout-weights", {"part": "exact"}, {"p": 0.0}, "keep rate is 0.0"),
        ("layer-roles", {"layout": "pairwise"}, {"n": 2}, "n is 2, below d = 4"),
        ("layer-roles", {"layout": "single"}, {"n": 2}, "n is 2, below d = 4"),
        ("layer-roles", {"layout": "single"}, {"layers": 1}, "layers is 1"),
        ("eos-equivalence", {}, {"layers": 1}, "layers is 1 and n is 5"),
        ("concept-retrieval", {}, {"pairs": 0}, "pairs is 0"),
        ("tsla-subspace", {}, {"draws": 10}, "draws is 10"),
    ],
)
def test_settings_below_what_a_claim_needs_are_refused(name, of, changed, message) -> None:
    (check,) = select([name])
    cells = (cell.settings for cell in check.cells(Preset("quick", 2)))
    settings = next(s for s in cells if of.items() <= s.items())
    with pytest.raises(UsageError, match=message):
        check.measure(Cell(name, settings | changed))
