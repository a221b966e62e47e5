from __future__ import annotations

import pytest

from harness_ext.errors import UsageError
from harness_ext.theory import Cell, Preset
from harness_ext.theory.critical_points import CriticalPoints, stationary, support

CHECK = CriticalPoints()


def gradient_cell(layout: str, figures: dict) -> tuple[Cell, dict]:
    settings = {"part": "gradient", "layout": layout, "separable": True, "seed": 0}
    return Cell(CHECK.name, settings), {"bound": 5.0, **figures}


def training_cell(share: list[float], untrained: list[float]) -> tuple[Cell, dict]:
    settings = {"part": "training", "layout": "pairwise", "flips": False}
    figures = {"share": share, "untrained": untrained, "chance": 0.2, "arrows": [0.0] * len(share)}
    return Cell(CHECK.name, settings), figures


GOOD = gradient_cell(
    "triplet",
    {
        "optimum": {"on": 2.0, "off": 2.0},
        "perturbed": {"on": 20.0, "off": 3.0},
        "gaussian": {"on": 9.0, "off": 9.0},
    },
)


def verdicts(*cells: tuple[Cell, dict]) -> list[str]:
    return [finding.verdict for finding in CHECK.judge(cells)]


def test_small_scores_and_shares_on_the_support_hold() -> None:
    assert verdicts(GOOD, training_cell([0.8, 0.7, 0.8], [0.2, 0.2])) == ["holds"] * 3


def test_a_large_score_at_an_optimum_does_not_hold() -> None:
    bad = gradient_cell("pairwise", {**GOOD[1], "optimum": {"on": 6.0, "off": 1.0}})
    assert verdicts(GOOD, bad, training_cell([0.8, 0.7], [0.2]))[0] == "does not hold"


def test_perturbations_that_show_nothing_leave_it_inconclusive() -> None:
    weak = gradient_cell("pairwise", {**GOOD[1], "perturbed": {"on": 4.0, "off": 1.0}})
    assert verdicts(GOOD, weak, training_cell([0.8, 0.7], [0.2]))[0] == "inconclusive"


def test_mass_elsewhere_and_mass_that_varies_too_much_do_not_hold() -> None:
    assert verdicts(GOOD, training_cell([0.3, 0.4], [0.2]))[2] == "does not hold"
    assert verdicts(GOOD, training_cell([0.95, 0.3], [0.2]))[2] == "does not hold"


def test_gradients_tell_an_optimum_from_its_neighbours() -> None:
    found = stationary.measure("pairwise", separable=True, layers=2, n=4, d=2, seed=0)
    assert max(found["optimum"].values()) < found["bound"] < found["perturbed"]["on"]


def test_one_demonstration_is_too_few_for_symmetries() -> None:
    with pytest.raises(UsageError, match="n is 1"):
        stationary.measure("pairwise", separable=True, layers=2, n=1, d=1, seed=0)


def test_untrained_weights_have_chance_mass_on_the_support() -> None:
    found = support.measure("triplet", 2, 4, 2, False, steps=1, batch=2, seeds=list(range(8)))
    share = sum(found["untrained"]) / 8
    assert abs(share - found["chance"]) < 0.05
    assert len(found["heat"]) == 15


def test_one_seed_is_too_few_for_standard_errors() -> None:
    with pytest.raises(UsageError, match="--seeds is 1"):
        CriticalPoints().cells(Preset("quick", 1))
