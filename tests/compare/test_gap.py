from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from harness_ext.compare.board_cells import Answers
from harness_ext.compare.gap import (
    NOT_SHOWN,
    OTHER_WAY,
    SHOWS,
    GapChange,
    WordMap,
    gap_change,
    maps_of,
    mean_change,
    verdict,
)
from harness_ext.compare.statistics import (
    Interval,
    mean_interval,
    mean_p_value,
    task_mean_interval,
)

UPPER = WordMap("upper")
Rows = Mapping[str, Sequence[Sequence[float]]]


def answers(rows: Rows, name: str = "upper") -> dict[str, Answers]:
    """By direction, for each pair the scores of its documents, one query each."""
    found = {}
    for direction, own in rows.items():
        means = {
            f"{direction} {pair} {number}": float(score)
            for pair, scores in enumerate(own)
            for number, score in enumerate(scores)
        }
        clusters = {document: f"{name}{document.split()[1]}" for document in means}
        found[f"{direction}_{name}"] = Answers(
            means, clusters, {document: document for document in means}, dict.fromkeys(means, 1)
        )
    return found


ICL = answers(
    {
        "forward": [[1], [1], [0], [0]],
        "inverse": [[1], [0], [1], [0]],
        "bijection": [[0, 0], [1, 1], [0, 0], [0, 0]],
    }
)
TV = answers(
    {
        "forward": [[1], [0], [0], [0]],
        "inverse": [[1], [0], [0], [1]],
        "bijection": [[0, 0], [1, 0], [0, 0], [1, 0]],
    }
)
BEFORE, AFTER = [1, -0.5, 0.5, 0], [1, -0.5, 0, 0]


def change_of(icl: Mapping[str, Answers], tv: Mapping[str, Answers]) -> GapChange:
    change = gap_change(icl, tv, UPPER)
    assert change is not None
    return change


def test_the_gap_of_each_pair_is_one_way_minus_both_ways() -> None:
    change = change_of(ICL, TV)
    assert [list(gaps.values()) for gaps in change.gaps] == [BEFORE, AFTER]
    assert list(change.changes.values()) == [0, 0, -0.5, 0]


def test_intervals_are_over_pairs_and_the_test_belongs_to_them() -> None:
    change = change_of(ICL, TV)
    assert (change.pairs, change.left_out) == (4, 0)
    assert change.icl == mean_interval(BEFORE)
    assert change.tv == mean_interval(AFTER)
    assert change.difference == mean_interval([0, 0, -0.5, 0], bound=2)
    assert change.p_value == mean_p_value([0, 0, -0.5, 0], bound=2)


def test_a_map_that_is_its_own_inverse_compares_its_one_direction() -> None:
    antonym = WordMap("antonym")
    rows = {"forward": [[1], [1]], "bijection": [[1, 0], [0, 0]]}
    change = gap_change(answers(rows, "antonym"), answers(rows, "antonym"), antonym)
    assert change is not None and list(change.gaps[0].values()) == [0.5, 1]
    assert antonym.tasks == ("forward_antonym", "bijection_antonym")


def test_copy_has_one_task_and_no_gap() -> None:
    rows = answers({"bijection": [[1], [1]]}, "copy")
    assert WordMap("copy").tasks == ("bijection_copy",)
    assert gap_change(rows, rows, WordMap("copy")) is None


def test_draws_are_averaged_within_their_query_before_queries() -> None:
    rows = answers(
        {"forward": [[1], [1]], "inverse": [[1], [1]], "bijection": [[1, 0, 0], [1, 1, 1]]}
    )
    own = rows["bijection_upper"]
    # Of the first pair, one draw of x and two of y.
    queries = {document: "x" if document.endswith("0") else "y" for document in own.means}
    rows["bijection_upper"] = Answers(own.means, own.clusters, queries, own.counts)
    assert list(change_of(rows, rows).gaps[0].values()) == [0.5, 0]


def test_documents_of_one_setting_alone_are_left_out_of_both() -> None:
    fewer = {
        "forward": [[1], [1], [0]],
        "inverse": [[1], [0], [1]],
        "bijection": [[0, 0], [1, 1], [0]],
    }
    change = change_of(ICL, answers(fewer))
    assert change.pairs == 3 and list(change.changes.values()) == [0, 0, 0]
    assert change.left_out == 5  # a pair with 4 documents, and one of another


def test_pairs_that_a_direction_lacks_are_left_out() -> None:
    rows = {"forward": [[1], [1]], "inverse": [[1], [1]], "bijection": [[1, 1], [0, 0], [0, 0]]}
    change = change_of(answers(rows), answers(rows))
    assert change.pairs == 2 and list(change.gaps[0].values()) == [0, 1]
    assert change.left_out == 1


@pytest.mark.parametrize("missing", ["forward_upper", "inverse_upper", "bijection_upper"])
def test_a_map_with_a_missing_task_has_no_gap(missing: str) -> None:
    assert gap_change(ICL, {t: own for t, own in TV.items() if t != missing}, UPPER) is None


def test_one_pair_has_no_gap() -> None:
    rows = answers({"forward": [[1]], "inverse": [[1]], "bijection": [[1, 0]]})
    assert gap_change(rows, rows, UPPER) is None


def test_the_mean_over_maps_counts_each_once() -> None:
    other = answers(
        {"forward": [[1]] * 9, "inverse": [[1]] * 9, "bijection": [[0, 1], *[[0, 0]] * 8]}, "past"
    )
    changes = [change_of(ICL, TV), gap_change(other, other, WordMap("past"))]
    icl, tv, difference = mean_change([change for change in changes if change])
    assert icl.estimate == pytest.approx((0.25 + 8.5 / 9) / 2)
    assert difference.estimate == pytest.approx((-0.125 + 0) / 2)
    assert tv == task_mean_interval(
        [[(v, 1) for v in AFTER], [(0.5, 1), *[(1, 1)] * 8]], extremes=(-1, 1)
    )


def test_maps_are_found_by_their_joined_tasks() -> None:
    tasks = ["forward_upper", "bijection_upper", "forward_language", "bijection_copy"]
    assert [word_map.name for word_map in maps_of(tasks)] == ["copy", "upper"]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((0.01, 0.4), SHOWS),
        ((-0.4, -0.01), OTHER_WAY),
        ((-0.01, 0.4), NOT_SHOWN),
        ((0.0, 0.4), NOT_SHOWN),
        ((-0.4, 0.0), NOT_SHOWN),
    ],
)
def test_the_verdict_says_no_more_than_the_interval(ends: tuple[float, float], said: str) -> None:
    assert verdict(Interval(sum(ends) / 2, *ends)) == said


@pytest.mark.parametrize(
    ("estimate", "p_value", "said"),
    [(0.2, 0.049, SHOWS), (0.2, 0.051, NOT_SHOWN), (-0.2, 0.001, OTHER_WAY)],
)
def test_a_corrected_p_value_decides(estimate: float, p_value: float, said: str) -> None:
    assert verdict(Interval(estimate, estimate - 0.1, estimate + 0.1), p_value) == said


def test_the_maps_are_tasks_of_this_package() -> None:
    folder = Path(__file__).parents[2] / "tasks"
    names = [f"bijection_{path.stem}" for path in folder.glob("bijection/*.yaml")]
    assert len(maps_of(names)) > 10
    for word_map in maps_of(names):
        found = [
            f"{direction}_{word_map.name}"
            for direction in ("forward", "inverse", "bijection")
            if (folder / direction / f"{word_map.name}.yaml").is_file()
        ]
        assert list(word_map.tasks) == found
