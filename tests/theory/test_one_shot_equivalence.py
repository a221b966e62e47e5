from __future__ import annotations

import pytest
import torch

from harness_ext.theory import Cell
from harness_ext.theory.linear_attention.model import squared_errors, states
from harness_ext.theory.linear_attention.optimum import least_risk
from harness_ext.theory.linear_attention.prompts import Pairs, draw_pairs, tokens
from harness_ext.theory.linear_attention.structure import Structure, orthonormal_mixing
from harness_ext.theory.one_shot_equivalence import OneShotEquivalence
from harness_ext.theory.one_shot_equivalence.injection import Model, built_numbers

N, D = 6, 3


@pytest.fixture
def mixing() -> torch.Tensor:
    return orthonormal_mixing(torch.Generator().manual_seed(0), N)


@pytest.fixture
def pairs() -> Pairs:
    return draw_pairs(torch.Generator().manual_seed(1), N, D, 5)


def test_three_layers_predict_what_two_of_single_tokens_do(mixing, pairs) -> None:
    single = least_risk("single", 2, N, D, range(4)).numbers
    errors = squared_errors(
        Structure("single", 2).weights(single, N, D), tokens(pairs, "single"), pairs
    )
    weights = Structure("triplet", 3).weights(built_numbers(3, N, D), N, D, mixing)
    torch.testing.assert_close(squared_errors(weights, tokens(pairs, "triplet"), pairs), errors)


def test_the_vector_is_the_state_at_the_last_arrow_after_the_first_layer(mixing, pairs) -> None:
    model = Model(built_numbers(2, N, D), 2, N, D, mixing)
    _, first, _ = states(model.full, tokens(pairs, "triplet"), N)
    torch.testing.assert_close(model.vectors(pairs, query=True), first[..., -2])


def test_the_vector_is_one_demonstration_of_the_same_map(mixing, pairs) -> None:
    vectors = Model(built_numbers(2, N, D), 2, N, D, mixing).vectors(pairs, query=True)
    x, y = vectors.split(D, -1)
    torch.testing.assert_close((pairs.maps @ x[..., None])[..., 0], y)


CHECK = OneShotEquivalence()


def cell(**changes: object) -> Cell:
    return Cell(CHECK.name, {"model": "built", "layers": 2, "n": 5, "d": 4, "seed": 0} | changes)


def measured(ratio: float, mismatched: float = 1.5, searched: float = 1.0) -> list:
    """A built model at one ratio in every procedure, and a searched one."""
    one = {"one-shot": 1.4, "vector": (ratio, 0.01), "mismatched": (mismatched, 0.01)}
    other = one | {"vector": (searched, 0.01)}
    procedures = ("text", "batch norm", "released")
    return [
        (cell(), dict.fromkeys(procedures, one)),
        (cell(model="searched", layers=3), dict.fromkeys(procedures, other)),
    ]


def verdicts(*arguments: float) -> list[str]:
    return [finding.verdict for finding in CHECK.judge(measured(*arguments))]


def test_ratios_near_one_hold() -> None:
    assert verdicts(1.02) == ["holds"] * 3


def test_a_ratio_far_from_one_does_not_hold_and_settles_nothing_else() -> None:
    assert verdicts(0.5) == ["does not hold", "inconclusive", "inconclusive"]


def test_a_ratio_outside_by_less_than_its_error_decides_nothing() -> None:
    assert verdicts(1.12)[0] == "inconclusive"


def test_mismatched_halves_in_the_band_leave_it_inconclusive() -> None:
    assert verdicts(1.0, 1.0)[0] == "inconclusive"


def test_one_searched_optimum_outside_is_enough() -> None:
    assert verdicts(1.0, 1.5, 1.9)[1] == "does not hold"


def test_a_difference_in_the_released_procedure_is_shown_beside_what_licenses_it() -> None:
    cells = measured(1.02)
    cells[0][1]["released"] = {"vector": (3.0, 0.2), "mismatched": (3.1, 0.2)}
    found = CHECK.judge(cells)[2]
    assert found.verdict == "does not hold"
    assert "3 ± 0.2" in found.summary
    assert "text's procedure" in found.control and "1.02 ± 0.01" in found.control
    assert "different W" not in found.control


def test_a_mismatched_vector_does_worse_than_a_task_vector() -> None:
    found = CHECK.measure(cell())["text"]
    (vector, error), (mismatched, _) = found["vector"], found["mismatched"]
    assert abs(vector - 1) < 0.1
    assert 0 < error < 0.05
    assert mismatched > 1.2 * vector


def test_error_bars_cover_the_spread_of_seeds() -> None:
    found = [CHECK.measure(cell(seed=seed))["text"]["vector"] for seed in range(8)]
    means, errors = torch.tensor(found).T
    assert 0.4 < float(means.std() / errors.mean()) < 2
