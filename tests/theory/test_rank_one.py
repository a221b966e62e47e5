"""Proposition 4: rank-one maps and one vector on a pair's bijection."""

import numpy as np
import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell
from harness_ext.theory.rank_one import (
    answer_cosines,
    best_cosine,
    cosine_bound,
    least_error,
    least_error_formula,
)
from harness_ext.theory.rank_one.algebra import pair_at
from harness_ext.theory.rank_one.check import RankOne
from harness_ext.theory.rank_one.model import swap


@pytest.mark.parametrize("angle", [0, 20, 90, 130, 180])
def test_the_formula_is_the_least_squared_singular_value_and_what_a_search_finds(angle):
    x, y = pair_at(angle, 3, 0)
    assert x @ y == pytest.approx(np.cos(np.deg2rad(angle)))
    smallest = np.linalg.svd(np.stack([x, y], 1), compute_uv=False)[-1] ** 2
    assert least_error_formula(angle) == pytest.approx(smallest, abs=1e-12)
    assert least_error(x, y, 1, 0) == pytest.approx(smallest, abs=1e-8)
    assert least_error(x, y, 2, 0) == pytest.approx(0, abs=1e-8)


def test_no_random_vector_passes_the_bound_on_cosines_and_a_search_reaches_it():
    x, y = pair_at(70, 4, 0)
    generator = np.random.default_rng(0)
    best = 0.0
    for a, b in generator.normal(size=(2000, 2, 4)):
        b /= np.linalg.norm(b)
        best = max(best, (np.sign(a @ x) * b @ y + np.sign(a @ y) * b @ x) / 2)
    assert 0.6 < best <= cosine_bound(70)
    assert best_cosine(x, y, 1, 0) == pytest.approx(cosine_bound(70), abs=1e-7)
    assert best_cosine(x, y, 2, 0) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("angle", [0, 45, 180])
def test_the_swap_is_an_involution_that_exchanges_the_pair(angle):
    x, y = (torch.tensor(v)[None] for v in pair_at(angle, 4, 1))
    maps = swap(x, y)
    torch.testing.assert_close((maps @ x[..., None])[..., 0], y)
    torch.testing.assert_close((maps @ y[..., None])[..., 0], x)
    torch.testing.assert_close(maps @ maps, torch.eye(4, dtype=torch.float64)[None])


def test_one_vector_fails_at_right_angles_where_all_vectors_and_the_prompt_do_not():
    figures = answer_cosines(90, 4, 6, 100, "both ways", 0)
    assert figures["one vector"]["mean"] < 0.75
    assert figures["one vector"]["over"] < 1e-9
    assert figures["ICL"]["mean"] == pytest.approx(1)
    assert figures["all vectors"]["mean"] == pytest.approx(figures["ICL"]["mean"])


@pytest.mark.parametrize(("a", "cosine"), [(1.0, 0), (1.5, -1)])
def test_at_other_points_of_the_same_risk_all_vectors_fail(a, cosine):
    figures = answer_cosines(90, 4, 6, 100, "both ways", 0, a)
    assert figures["ICL"]["mean"] == pytest.approx(1)
    assert figures["all vectors"]["mean"] == pytest.approx(cosine)


def test_the_exception_is_one_of_pairs_and_not_of_tasks():
    for angle in (0, 180):
        assert answer_cosines(angle, 4, 6, 50, "both ways", 0)["one vector"]["mean"] > 0.999
        isotropic = answer_cosines(angle, 4, 6, 2000, "isotropic", 0)["one vector"]["mean"]
        # E|cos| of a random line in four dimensions.
        assert isotropic == pytest.approx(4 / (3 * np.pi), abs=0.03)


def test_too_few_dimensions_or_demonstrations_are_refused():
    with pytest.raises(UsageError, match="at least 2 dimensions"):
        pair_at(30, 1, 0)
    with pytest.raises(UsageError, match="at least 2 demonstrations"):
        answer_cosines(90, 4, 1, 10, "both ways", 0)


def test_the_check_ends_as_recorded():
    check = RankOne()
    settings = dict(d=4, n=10, prompts=200, seed=0)
    cells = [Cell(check.name, dict(angle=angle, **settings)) for angle in (0, 30, 90, 150, 180)]
    findings = check.judge([(cell, check.measure(cell)) for cell in cells])
    assert [f.verdict for f in findings] == [c.expected for c in check.claims]
