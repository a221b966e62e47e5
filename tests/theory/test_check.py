from __future__ import annotations

import pytest

from harness_ext.errors import UsageError
from harness_ext.theory import CHECKS, Cell, Preset, preset, select, verdict


@pytest.mark.parametrize(
    ("holds", "control_fails", "ended"),
    [
        (True, True, "holds"),
        (False, True, "does not hold"),
        (None, True, "inconclusive"),
        (True, False, "inconclusive"),
        (False, False, "inconclusive"),
    ],
)
def test_a_claim_whose_control_does_not_come_out_the_other_way_is_inconclusive(
    holds, control_fails, ended
) -> None:
    assert verdict(holds, control_fails) == ended


def test_a_cell_is_known_by_its_settings_in_any_order() -> None:
    assert Cell("c", {"n": 1, "d": 2}).key == Cell("c", {"d": 2, "n": 1}).key
    assert Cell("c", {"n": 1, "d": 2}).key != Cell("c", {"n": 1, "d": 3}).key


def test_every_check_has_distinct_claims_and_distinct_cells() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert len({claim.key for claim in check.claims}) == len(check.claims) > 0
        for name in ("quick", "paper"):
            cells = check.cells(Preset(name))
            assert len({cell.key for cell in cells}) == len(cells) > 0
            assert {cell.check for cell in cells} == {check.name}


def test_checks_are_selected_once_each_and_in_their_own_order() -> None:
    names = [check.name for check in CHECKS]
    assert [check.name for check in select([names[1], names[0], names[1]])] == names[:2]
    assert select(["all", names[0]]) == list(CHECKS)


def test_an_unknown_check_is_named_with_its_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown check 'risk-order'; did you mean risk-ordering"):
        select(["risk-order"])


def test_an_unknown_preset_or_a_number_of_seeds_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown preset 'quik'; did you mean quick"):
        preset("quik")
    with pytest.raises(UsageError, match="--seeds is 0"):
        preset("quick", 0)
