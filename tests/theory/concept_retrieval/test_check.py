"""The check `concept-retrieval` end to end: few steps, few prompts, one seed."""

from __future__ import annotations

import json

import matplotlib.figure
import pytest

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell, Measured, Preset
from harness_ext.theory.concept_retrieval import ConceptRetrieval
from harness_ext.theory.concept_retrieval.training import RECIPES

CHECK = ConceptRetrieval()


@pytest.fixture(scope="module")
def measured() -> Measured:
    """Seed 0 of every recipe, trained for a fifth of the preset's steps on half its batch."""
    cells = [
        Cell(cell.check, {**cell.settings, "steps": 80, "batch": 64, "prompts": 100})
        for cell in CHECK.cells(Preset("quick", seeds=1))
    ]
    return [(cell, CHECK.measure(cell)) for cell in cells]


def test_cells_hold_every_recipe_in_blocks_of_four_seeds() -> None:
    cells = CHECK.cells(Preset("quick", seeds=6))
    assert [cell.settings["seeds"] for cell in cells] == [[0, 1, 2, 3], [4, 5]] * len(RECIPES)
    assert {cell.settings["recipe"] for cell in cells} == set(RECIPES)


def test_what_shows_early_in_training_ends_as_recorded(measured: Measured) -> None:
    ended = {finding.claim: finding.verdict for finding in CHECK.judge(measured)}
    expected = {claim.key: claim.expected for claim in CHECK.claims}
    assert ended.keys() == expected.keys()
    for key in (
        "qa-values",
        "residual-needed",
        "normalisation-needed-always",
        "unseen-in-cone",
        "cone-needed",
        "mixtures",
        "longer-prompts",
    ):
        assert ended[key] == expected[key], key
    # Attention to a_k has not grown yet under QA, so its control cannot oppose.
    assert ended["icl-attention"] == "inconclusive"


def test_figures_are_what_json_holds_and_one_per_seed(measured: Measured) -> None:
    for _, figures in measured:
        assert json.loads(json.dumps(figures, allow_nan=False)) == figures
        assert all(len(by_seed) == 1 for by_seed in figures.values())
        steps = figures["step, curve"][0]
        assert steps[0] == 0 and steps[-1] == 80
        assert len(figures["error, curve"][0]) == len(steps)


def test_a_cell_gives_the_same_figures_again() -> None:
    cell = CHECK.cells(Preset("quick", seeds=1))[0]
    short = Cell(cell.check, {**cell.settings, "steps": 3, "batch": 8, "prompts": 20})
    assert CHECK.measure(short) == CHECK.measure(short)


def test_the_picture_has_six_titled_panels(measured: Measured) -> None:
    figure = matplotlib.figure.Figure()
    CHECK.draw(measured, figure)
    titles = [axis.get_title() for axis in figure.axes]
    assert len(titles) == 6 and all(titles)


def test_an_unknown_recipe_is_refused_with_those_there_are() -> None:
    cell = CHECK.cells(Preset("quick"))[0]
    with pytest.raises(UsageError, match="unknown recipe 'qaa'; known: qa, icl"):
        CHECK.measure(Cell(cell.check, {**cell.settings, "recipe": "qaa"}))


def test_concepts_that_do_not_fit_the_dimension_are_refused() -> None:
    cell = CHECK.cells(Preset("quick"))[0]
    with pytest.raises(UsageError, match="dimension is 100"):
        CHECK.measure(Cell(cell.check, {**cell.settings, "dimension": 100}))
