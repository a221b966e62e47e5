"""The check `tsla-subspace` end to end, small."""

from __future__ import annotations

import json
import math

import matplotlib.figure
import pytest

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell, Measured, Preset
from harness_ext.theory.tsla_subspace import TSLASubspace

CHECK = TSLASubspace()


@pytest.fixture(scope="module")
def measured() -> Measured:
    cells = CHECK.cells(Preset("quick", seeds=1))
    small = [Cell(cell.check, {**cell.settings, "draws": 10000}) for cell in cells]
    return [(cell, CHECK.measure(cell)) for cell in small]


def test_every_claim_ends_as_recorded(measured: Measured) -> None:
    ended = {finding.claim: finding.verdict for finding in CHECK.judge(measured)}
    assert ended == {claim.key: claim.expected for claim in CHECK.claims}


def test_rates_agree_with_their_closed_forms(measured: Measured) -> None:
    for cell, figures in measured:
        for name in [name for name in figures if f"{name}, exact" in figures]:
            draws = cell.settings["draws"] / (
                40 if "many" in name else 4 if "chance" in name else 1
            )
            rate, exact = figures[name][0], figures[f"{name}, exact"][0]
            error = math.sqrt(exact * (1 - exact) / draws)
            assert abs(rate - exact) < 4.5 * error + 3 / draws, (cell, name)


def test_random_heads_lose_as_often_as_they_win(measured: Measured) -> None:
    for _, figures in measured:
        assert figures["other larger, unrelated"][0] == pytest.approx(0.5, abs=0.03)
        assert figures["any of many larger, unrelated"][0] == pytest.approx(100 / 101, abs=0.05)


def test_the_top_share_fails_half_as_often_as_it_is_wide(measured: Measured) -> None:
    rates = [figures["other larger, top by share"][0] for _, figures in measured]
    assert sum(rates) / len(rates) == pytest.approx(0.015, abs=0.01)


def test_a_cell_gives_the_same_figures_again(measured: Measured) -> None:
    cell, figures = measured[0]
    assert CHECK.measure(cell) == figures
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_the_picture_has_three_labelled_panels(measured: Measured) -> None:
    figure = matplotlib.figure.Figure()
    CHECK.draw(measured, figure)
    assert [axis.get_xlabel() for axis in figure.axes] == ["dimension d"] * 3


@pytest.mark.parametrize(
    ("setting", "value"), [("dimension", 4), ("dimension", 18), ("draws", 100)]
)
def test_settings_below_what_the_claims_need_are_refused(setting: str, value: int) -> None:
    cell = CHECK.cells(Preset("quick"))[0]
    with pytest.raises(UsageError, match=f"{setting} is {value}"):
        CHECK.measure(Cell(cell.check, {**cell.settings, setting: value}))
