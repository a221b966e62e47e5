from xml.etree import ElementTree

from harness_ext.compare.page.gap import GapTable, gap_tables
from harness_ext.compare.table1 import table1
from tests.compare.page_data import evaluation, grid


def tables() -> list[GapTable]:
    made = table1(grid())
    assert made is not None
    return gap_tables(made)


def test_each_model_has_a_table_with_accuracies_gaps_and_a_verdict() -> None:
    alpha, beta = tables()
    assert (alpha.model, beta.model) == ("alpha", "beta-2")
    (row,) = alpha.rows
    told = [cell.estimate for cell in row.accuracies if cell is not None]
    assert told == ["1.00", "0.70", "0.90", "0.60", "0.70", "0.40"]
    assert [gap.estimate for gap in row.gaps] == ["0.25", "0.25", "0.00"]
    assert row.verdict == "does not show"


def test_the_chart_has_both_marks_at_the_numbers_of_the_table_on_one_scale() -> None:
    drawings = [ElementTree.fromstring(str(own.chart)) for own in tables()]
    for drawing in drawings:
        assert "upper: ICL 0.25, TV 0.25" in drawing.findtext("desc", "")
        circle, square = drawing.find("circle"), drawing.find("rect")
        assert float(square.get("x")) + 4.5 == float(circle.get("cx"))
        assert "accuracy one way − accuracy both ways" in {t.text for t in drawing.iter("text")}
    one, other = ([each.get("x1") for each in drawing.iter("line")] for drawing in drawings)
    assert one[:3] == other[:3]


def test_a_map_without_a_gap_keeps_its_accuracies_and_has_no_chart() -> None:
    made = table1([evaluation("bijection_past"), evaluation("bijection_past", "none", 10)])
    assert made is not None
    (own,) = gap_tables(made)
    (row,) = own.rows
    assert (row.gaps, own.chart) == ((), None)
    assert [cell and cell.estimate for cell in row.accuracies] == [None] * 4 + ["0.50", "0.50"]
