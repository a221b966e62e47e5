"""How seeds and a negative control decide a claim."""

from __future__ import annotations

import pytest

from harness_ext.theory.check import Cell, Claim
from harness_ext.theory.rules import Rule, named, runs_by

CLAIM = Claim("small", "small", "nowhere", "error", "below 0.1", "holds")


@pytest.mark.parametrize(
    ("errors", "control", "verdict"),
    [
        ([0.0, 0.01], [0.5, 0.4], "holds"),
        ([0.3, 0.2], [0.0, 0.01], "does not hold"),
        ([0.0, 0.2], [0.5, 0.5], "inconclusive"),
        ([0.0, 0.01], [0.5, 0.05], "inconclusive"),
        ([0.3, 0.2], [0.5, 0.5], "inconclusive"),
        ([0.3, 0.2], [0.0, 0.5], "inconclusive"),
    ],
)
def test_a_claim_is_decided_where_seeds_agree_and_the_control_opposes(
    errors: list[float], control: list[float], verdict: str
) -> None:
    rule = Rule(
        CLAIM,
        named("own", error="e"),
        lambda error: error < 0.1,
        "another",
        named("other", error="e"),
    )
    finding = rule.judge({"own": {"e": errors}, "other": {"e": control}})
    assert finding.verdict == verdict
    assert finding.figures["evidence"] == {"error": errors}
    assert finding.control.startswith("another: error ")


def test_figures_beside_the_deciding_ones_decide_nothing() -> None:
    rule = Rule(
        CLAIM,
        named("own", error="e"),
        lambda error: error < 0.1,
        "another",
        named("other", error="e"),
        named("own", beside="b"),
    )
    finding = rule.judge({"own": {"e": [0.0], "b": [9.0]}, "other": {"e": [1.0]}})
    assert finding.verdict == "holds"
    assert "beside 9 (9 to 9)" in finding.summary


def test_blocks_of_seeds_join_in_the_order_of_the_cells() -> None:
    cells = [Cell("c", {"recipe": r, "seeds": s}) for r in "xy" for s in ([0, 1], [2])]
    figures = [{"e": [0, 1]}, {"e": [2]}, {"e": [10, 11]}, {"e": [12]}]
    runs = runs_by("recipe", list(zip(cells, figures, strict=True)))
    assert runs["x"]["e"] == [0, 1, 2]
    assert runs["y"]["e"] == [10, 11, 12]
