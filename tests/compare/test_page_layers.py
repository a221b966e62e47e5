import math
from xml.etree import ElementTree

import pytest

from harness_ext.compare.board_rows import rows_of
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.page.layers import Panel, panels
from tests.compare.page_data import HOSTILE, LAYERS, evaluation


def found(*evaluations: Evaluation) -> dict[str, tuple[Panel, ...]]:
    return panels(rows_of(evaluations), list(dict.fromkeys(each.task for each in evaluations)))


def test_each_method_has_a_panel_with_a_curve_for_each_number_of_shots() -> None:
    own = found(evaluation(), evaluation(shots=2), evaluation(method="tv_m", shots=1))
    one, other = own["forward_upper"]
    assert [curve.name for curve in one.curves] == ["0-shot", "2-shot"]
    assert (other.method, [curve.name for curve in other.curves]) == ("tv_m", ["1-shot"])
    assert one.rows[0] == ("0-shot", "2", "0.90", "50", "0.10 0.50 0.90 0.20")
    assert one.layers == "layers 0 to 3"


def test_seeds_are_averaged_and_each_chosen_layer_is_marked() -> None:
    other = {"layer": 1, "layers": LAYERS, "development_accuracy_by_layer": [0.3, 0.9, 0.5, 0.0]}
    ((panel,),) = found(evaluation(), evaluation(seed=7, steering=other)).values()
    (curve,) = panel.curves
    assert curve.accuracy == pytest.approx((0.2, 0.7, 0.7, 0.1))
    assert sorted(curve.chosen) == [1, 2]
    assert panel.chart.count("<circle") == 2


@pytest.mark.parametrize(
    "steering",
    [
        {},
        {"layer": 2},
        {"layer": 9, "layers": [0, 1], "development_accuracy_by_layer": [0.1, 0.2]},
        {"layer": 0, "layers": [0, 1], "development_accuracy_by_layer": [0.1]},
        {"layer": 0, "layers": [], "development_accuracy_by_layer": []},
        {"layer": 0, "layers": [0], "development_accuracy_by_layer": [math.nan]},
        {"layer": 0, "layers": [0], "development_accuracy_by_layer": ["<b>"]},
        {"layer": "0", "layers": ["0"], "development_accuracy_by_layer": [0.1]},
        {"layer": 0, "layers": "0", "development_accuracy_by_layer": "1"},
    ],
)
def test_what_does_not_tell_a_curve_has_none(steering: dict[str, object]) -> None:
    assert found(evaluation(steering=steering)) == {}


def test_a_chart_is_well_formed_and_says_what_it_shows() -> None:
    ((panel,),) = found(evaluation(model=HOSTILE)).values()
    drawing = ElementTree.fromstring(panel.chart)
    assert drawing.findtext("title", "").startswith("Development accuracy by layer: <script>")
    assert "0-shot: layer 2" in drawing.findtext("desc", "")
    assert drawing.find("script") is None
    labels = {each.text for each in drawing.iter("text")}
    assert {"layer", "accuracy", "0.0", "1.0", "3"} <= labels


def test_the_chosen_layer_is_marked_where_its_accuracy_is() -> None:
    ((panel,),) = found(evaluation()).values()
    drawing = ElementTree.fromstring(panel.chart)
    points = drawing.find("polyline").get("points").split()
    circle = drawing.find("circle")
    assert points[2] == ",".join(f"{float(circle.get(name)):.1f}" for name in ("cx", "cy"))


def test_one_layer_alone_is_drawn() -> None:
    steering = {"layer": 5, "layers": [5], "development_accuracy_by_layer": [1.0]}
    ((panel,),) = found(evaluation(steering=steering)).values()
    assert "nan" not in panel.chart and panel.layers == "layers 5 to 5"
