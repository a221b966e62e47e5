from harness_ext.compare.evaluations import Evaluation, Metric, Reading
from harness_ext.compare.leaderboard import build
from harness_ext.compare.page.board import BoardTable, board_table
from tests.compare.page_data import evaluation, grid


def table(*evaluations: Evaluation) -> BoardTable:
    return board_table(build(Reading(tuple(evaluations), ())), evaluations)


def test_means_come_first_and_the_mean_over_all_tasks_before_the_others() -> None:
    tasks = [f"{kind}_{name}" for kind in ("forward", "bijection") for name in ("a", "b")]
    own = table(*(evaluation(task) for task in tasks))
    names = [cell.column.name for cell in own.head]
    assert names[:3] == ["mean", "forward", "bijection"] and sorted(names[3:]) == sorted(tasks)
    assert own.means == 3


def test_columns_belong_to_the_sets_that_can_be_chosen() -> None:
    tasks = [f"{kind}_{name}" for kind in ("forward", "bijection") for name in ("a", "b")]
    own = table(*(evaluation(task) for task in tasks))
    sets = own.choices["columns"]
    assert sets == ("means", "forward", "bijection")
    chosen = {
        name: {c.column.name for c in own.head if str(place) in c.sets.split()}
        for place, name in enumerate(sets)
    }
    assert chosen["means"] == {"mean", "forward", "bijection"}
    assert chosen["bijection"] == {"bijection", "bijection_a", "bijection_b"}


def test_rows_hold_the_numbers_of_their_choices() -> None:
    own = table(*grid())
    for row in own.rows:
        assert own.choices["model"][row.choices["model"]] == row.row.model
        assert own.choices["method"][row.choices["method"]] == row.row.method
        assert own.choices["shots"][row.choices["shots"]] == str(row.row.shots)
    assert own.choices["shots"] == ("0", "10")


def test_cells_tell_the_interval_and_what_is_missing_is_none() -> None:
    own = table(evaluation("forward_a"), evaluation("forward_b", "none"))
    (cell,) = [cell for cell in own.rows[0].cells if cell is not None]
    assert (cell.estimate, cell.value, cell.shade) == ("0.50", "0.5", 5)
    low, high = map(float, cell.ends.split(" to "))
    assert 0.2 < low < 0.5 < high < 0.8
    assert "20 documents" in cell.about
    assert sum(each is None for row in own.rows for each in row.cells) == 2


def test_scores_that_are_no_shares_have_no_shade_and_sort_by_their_direction() -> None:
    metrics = {"word_perplexity": Metric(12.5, 0.3, False)}
    own = table(evaluation("wikitext", "hf", metrics=metrics, samples=None))
    (head,) = own.head
    (cell,) = own.rows[0].cells
    assert head.first == "ascending" and "lower is better" in head.about
    assert cell is not None and (cell.estimate, cell.shade) == ("12.50", 0)


def test_a_score_without_an_interval_says_so() -> None:
    own = table(evaluation("a", metrics={"bleu": Metric(21.0, None, True)}, samples=None))
    assert own.rows[0].cells[0] is not None
    assert own.rows[0].cells[0].ends == "no interval"
