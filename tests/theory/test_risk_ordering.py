from __future__ import annotations

import pytest

from harness_ext.theory import Cell, Preset
from harness_ext.theory.risk_ordering import RiskOrdering

CHECK = RiskOrdering()
RISKS = {("single", 1): 1.3, ("pairwise", 2): 0.75, ("triplet", 2): 0.75, ("single", 2): 0.2}


def cells(**changes: dict) -> list[tuple[Cell, dict]]:
    made = []
    for (layout, layers), risk in RISKS.items():
        figures = {
            "risk": risk,
            "searched": risk,
            "error": 0.0,
            "without_positions": risk,
            "without_mixing": 4.0,
            **changes.get(f"{layout}{layers}", {}),
        }
        made.append((Cell(CHECK.name, {"layout": layout, "layers": layers, "n": 10}), figures))
    return made


def verdicts(**changes: dict) -> list[str]:
    return [finding.verdict for finding in CHECK.judge(cells(**changes))]


def test_the_known_risks_hold() -> None:
    assert verdicts() == ["holds"] * 3


def test_a_pairwise_risk_above_one_layer_less_does_not_hold() -> None:
    assert verdicts(pairwise2={"risk": 1.4})[0] == "does not hold"


def test_a_standard_error_that_reaches_the_bound_does_not_hold() -> None:
    assert verdicts(triplet2={"error": 0.4})[0] == "does not hold"


def test_searches_of_the_formats_two_percent_apart_do_not_agree_at_two_layers() -> None:
    apart = {"risk": 0.765, "searched": 0.765}
    assert verdicts(triplet2=apart)[1] == "does not hold"


def test_searches_of_two_layers_that_miss_the_closed_form_do_not_agree() -> None:
    missed = {"searched": 0.765}
    assert verdicts(pairwise2=missed, triplet2=missed)[1] == "does not hold"


def test_a_control_below_the_bound_leaves_it_inconclusive() -> None:
    assert verdicts(triplet2={"without_mixing": 1.0})[0] == "inconclusive"


def test_single_tokens_must_be_best_without_positions_too() -> None:
    assert verdicts(single2={"without_positions": 0.8})[2] == "does not hold"


def test_the_paper_preset_covers_the_figures_grid() -> None:
    points = {
        (cell.settings["layout"], cell.settings["layers"], cell.settings["n"])
        for cell in CHECK.cells(Preset("paper"))
    }
    sizes = (5, 10, 15, 20, 25, 30)
    assert points == {
        (layout, layers, n)
        for layout, least in (("single", 1), ("pairwise", 2), ("triplet", 2))
        for layers in range(least, 4)
        for n in sizes
    }


def test_a_measured_cell_has_a_risk_an_error_and_a_simulation() -> None:
    settings = {"layout": "pairwise", "layers": 2, "n": 5, "d": 2, "seeds": [0]}
    found = CHECK.measure(Cell(CHECK.name, settings))
    assert abs(found["simulated"] - found["risk"]) < 5 * found["simulated_error"]
    assert found["without_mixing"] > found["risk"]
    assert found["searched"] == pytest.approx(found["risk"], rel=0.03)
