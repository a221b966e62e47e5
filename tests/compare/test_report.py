from __future__ import annotations

from dataclasses import replace

import pytest

from harness_ext.compare.report import Limits
from tests.compare.comparisons import report, sides


def test_the_last_tolerance_that_fits_a_task_is_taken() -> None:
    limits = Limits(max_drop=0.1, per_task={"forward_*": 0.2, "forward_upper": 0.3, "*_past": 0.4})
    tasks = ("inverse_upper", "forward_french", "forward_upper", "forward_past")
    assert [limits.of(task) for task in tasks] == [0.1, 0.2, 0.3, 0.4]


def test_files_that_could_not_be_read_leave_a_comparison_open_unless_that_is_accepted() -> None:
    base, _ = sides()
    found = report(base, base)
    assert found.incomparable == ""
    assert replace(found, unread=1).incomparable == "not all files could be used"
    accepted = replace(found, unread=1, limits=Limits(allow_missing=True))
    assert accepted.incomparable == ""


def test_what_got_worse_and_better_is_told_apart() -> None:
    (found,) = report(*sides()).compared
    assert (len(found.lost), len(found.gained)) == (10, 1)
    assert all(flip.change < 0 for flip in found.lost)


@pytest.mark.parametrize(("limit", "too_many"), [(None, False), (0.0, True), (1.0, False)])
def test_changed_answers_count_where_they_are_limited(limit: float | None, too_many: bool) -> None:
    base, new = sides()
    other = [
        replace(
            each, samples=tuple(replace(one, answer=f"{one.answer}!") for one in each.samples or ())
        )
        for each in new
    ]
    assert report(base, other, limits=Limits(max_changed=limit)).too_many_changed is too_many
