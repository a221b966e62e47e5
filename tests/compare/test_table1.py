from __future__ import annotations

import pytest

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.gap import NOT_SHOWN, SHOWS
from harness_ext.compare.significance import holm
from harness_ext.compare.table1 import ICL, TV, ZERO_SHOT, ModelTable, table1
from tests.compare.made_up import evaluation, word_map

KNOWN = {"forward": [[1]] * 30, "inverse": [[1]] * 30, "bijection": [[1, 1]] * 30}
COLLAPSED = {"forward": [[1]] * 30, "inverse": [[1]] * 30, "bijection": [[1, 0]] * 30}


def tables(evaluations: list[Evaluation]) -> list[ModelTable]:
    found = table1(evaluations)
    return list(found.models) if found else []


def both(name: str = "upper", **further: object) -> list[Evaluation]:
    icl = word_map(name, KNOWN, method="none", shots=10, **further)
    return icl + word_map(name, COLLAPSED, method="tv", shots=0, **further)


def test_a_collapse_that_icl_does_not_have_shows() -> None:
    (model,) = tables(both())
    (line,) = model.lines
    assert line.change is not None
    assert (line.change.icl.estimate, line.change.tv.estimate) == (0, 0.5)
    assert line.verdict == SHOWS


def test_no_collapse_does_not_show() -> None:
    given = word_map("upper", COLLAPSED, method="none", shots=10)
    (model,) = tables(given + word_map("upper", COLLAPSED, method="tv", shots=0))
    assert model.lines[0].verdict == NOT_SHOWN


def test_p_values_are_holms_over_the_maps_of_a_model() -> None:
    some = {**KNOWN, "bijection": [[1, 1]] * 26 + [[0, 0]] * 4}
    given = both("upper") + word_map("past", KNOWN, method="none", shots=10)
    (model,) = tables(given + word_map("past", some, method="tv", shots=0))
    changes = [line.change for line in model.lines]
    assert [line.word_map.name for line in model.lines] == ["past", "upper"]
    assert [line.p_value for line in model.lines] == holm([c.p_value for c in changes if c])
    assert model.mean is not None


def test_a_map_that_shows_alone_may_not_show_among_many() -> None:
    # 5 of 30 pairs: p = 0.046 alone.
    some = {**KNOWN, "bijection": [[1, 1]] * 25 + [[0, 0]] * 5}
    names = ["a", "b", "c"]
    given = [each for n in names for each in word_map(n, KNOWN, method="none", shots=10)]
    given += [each for n in names for each in word_map(n, some, method="tv", shots=0)]
    alone = [each for each in given if each.task.endswith("_a")]
    assert tables(alone)[0].lines[0].verdict == SHOWS
    assert [line.verdict for line in tables(given)[0].lines] == [NOT_SHOWN] * 3


def test_icl_is_the_plain_model_with_the_most_shots_before_the_stock_one() -> None:
    given = both()
    for method, shots in (("none", 4), ("hf", 10), ("none", 0)):
        given += word_map("upper", KNOWN, method=method, shots=shots)
    (model,) = tables(given)
    assert {name: (row.method, row.shots) for name, row in model.rows.items()} == {
        ZERO_SHOT: ("none", 0),
        ICL: ("none", 10),
        TV: ("tv", 0),
    }


def test_the_stock_model_serves_where_there_is_no_other() -> None:
    given = word_map("upper", KNOWN, method="hf", shots=5)
    (model,) = tables(given + word_map("upper", COLLAPSED, method="tv", shots=0))
    assert (model.rows[ICL].method, model.rows[ICL].shots) == ("hf", 5)


def test_each_dtype_is_a_table_beside_its_own_icl() -> None:
    given = both(settings={"dtype": "float32"}) + both(settings={"dtype": "bfloat16"})
    models = tables(given)
    assert [model.model for model in models] == ["tiny · bfloat16", "tiny · float32"]
    assert [model.rows[ICL].variant for model in models] == ["bfloat16", "float32"]
    assert all(model.lines[0].verdict == SHOWS for model in models)


def test_seeds_are_averaged_for_each_pair() -> None:
    given = both(seed=1) + word_map("upper", KNOWN, method="tv", shots=0, seed=2)
    (model,) = tables(given)
    change = model.lines[0].change
    assert change is not None and change.tv.estimate == pytest.approx(0.25)
    assert model.lines[0].cells[TV, "bijection_upper"].score.seeds == (1, 2)


def test_a_map_without_an_inverse_task_has_scores_and_no_gap() -> None:
    given = [each for each in both() if not each.task.startswith("inverse")]
    (line,) = tables(given)[0].lines
    assert (TV, "forward_upper") in line.cells
    assert line.change is None and line.verdict == ""


def test_scores_that_are_no_shares_have_no_gap() -> None:
    rows = {direction: [[5, -3]] * 4 for direction in ("forward", "inverse", "bijection")}
    given = word_map("upper", rows, method="none", shots=10)
    (model,) = tables(given + word_map("upper", rows, method="tv", shots=0))
    assert model.lines[0].change is None


def test_without_icl_there_are_scores_and_a_note() -> None:
    (model,) = tables(word_map("upper", COLLAPSED, method="tv", shots=0))
    assert model.lines[0].change is None
    assert any("No ICL among these results" in note for note in model.notes)


@pytest.mark.parametrize(
    "given",
    [
        [],
        [evaluation("bijection_upper", method="tv", shots=4)],
        [evaluation("forward_upper")],
        [evaluation("bijection_upper", metric="acc")],
    ],
)
def test_there_is_no_table_without_a_joined_task_under_a_vector(given: list[Evaluation]) -> None:
    assert table1(given) is None
