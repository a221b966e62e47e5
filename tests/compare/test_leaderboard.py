from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness_ext.compare.board_columns import SEVERAL
from harness_ext.compare.evaluations import Evaluation, Problem, Reading
from harness_ext.compare.leaderboard import Choice, Leaderboard, Row, build
from harness_ext.compare.statistics import (
    accuracy_interval,
    combined_interval,
    reported_interval,
    task_mean_interval,
)
from harness_ext.errors import UsageError
from tests.compare.made_up import evaluation, reading, sample

RIGHT, WRONG = [1] * 30, [0] * 30


def names(board: Leaderboard) -> list[str]:
    return [row.name for row in board.rows]


def columns(board: Leaderboard) -> list[str]:
    return [column.name for column in board.columns]


def estimate(board: Leaderboard, row: int, column: str) -> float | None:
    score = board.scores.get((board.rows[row], column))
    return None if score is None else score.interval.estimate


# Rows


@pytest.mark.parametrize(
    ("method", "shots", "label"),
    [
        ("none", 0, "zero-shot"),
        ("none", 10, "ICL (10)"),
        ("hf", 0, "zero-shot, hf"),
        ("hf", 5, "ICL (5), hf"),
        ("tv", 0, "tv"),
        ("tv_m", 4, "tv_m (4)"),
        ("vllm", None, "vllm"),
    ],
)
def test_a_row_is_labelled_for_people(method: str, shots: int | None, label: str) -> None:
    assert Row("tiny", method, shots).label == label


def test_a_row_is_a_model_a_method_and_its_shots() -> None:
    board = build(
        reading(
            evaluation(method="none", shots=10),
            evaluation(method="none"),
            evaluation(),
            evaluation(model="big"),
        )
    )
    assert names(board) == ["big · tv", "tiny · zero-shot", "tiny · ICL (10)", "tiny · tv"]


def test_settings_that_differ_set_rows_apart_and_others_are_not_named() -> None:
    def steered(**settings: Any) -> Evaluation:
        return evaluation(settings={"demos": 10, "dtype": "float32", **settings})

    board = build(reading(steered(), steered(dtype="bfloat16"), steered(strength=2)))
    assert [row.variant for row in board.rows] == ["bfloat16", "float32", "float32, strength=2"]


def test_the_dtype_is_named_where_only_another_method_has_another() -> None:
    board = build(
        reading(
            evaluation(settings={"dtype": "float32"}),
            evaluation(method="none", settings={"dtype": "bfloat16"}),
            evaluation(model="big", settings={"dtype": "bfloat16"}),
        )
    )
    assert [row.variant for row in board.rows] == ["", "bfloat16", "float32"]


# Cells


def test_a_cell_is_the_share_of_right_answers_clustered() -> None:
    answers = [sample(f"d{n}", n % 3 == 0, cluster=f"c{n // 2}") for n in range(12)]
    board = build(reading(evaluation(scores=answers)))
    score = board.scores[board.rows[0], "forward_upper"]
    assert score.interval == accuracy_interval([1, 1, 0, 1, 1, 0], [2] * 6)
    assert (score.documents, score.clusters, score.seeds, score.note) == (12, 6, (1234,), "")


def test_seeds_are_averaged_for_each_query_before_the_interval() -> None:
    board = build(
        reading(
            evaluation(scores=[1, 0, 1, 0, 1], seed=1),
            evaluation(scores=[1, 0, 0, 0, 1], seed=2),
            evaluation(scores=[1, 1, 1, 0, 1], seed=3),
        )
    )
    score = board.scores[board.rows[0], "forward_upper"]
    assert score.interval.estimate == pytest.approx(9 / 15)
    expected = accuracy_interval([3, 1, 2, 0, 3], [3] * 5)
    assert (score.interval.low, score.interval.high) == pytest.approx((expected.low, expected.high))
    assert (score.documents, score.clusters, score.seeds) == (5, 5, (1, 2, 3))


def test_seeds_with_other_documents_are_said() -> None:
    board = build(
        reading(evaluation(scores=[1, 0, 1, 0], seed=1), evaluation(scores=[1, 0], seed=2))
    )
    note = "seeds have different documents: 2 of 4 not in every seed"
    assert board.scores[board.rows[0], "forward_upper"].note == note
    assert f"forward_upper of tiny · tv: {note}." in board.notes


def test_without_samples_the_reported_error_gives_the_interval() -> None:
    board = build(reading(evaluation(scores=[1, 0, 1, 1], has_samples=False, stderr=0.2)))
    score = board.scores[board.rows[0], "forward_upper"]
    assert score.interval == reported_interval(0.75, 0.2, 4, is_share=True)
    assert "no usable samples" in score.note and "no usable samples" in board.notes[0]


def test_seeds_without_samples_make_the_interval_no_smaller() -> None:
    def seeds(*numbers: int) -> Leaderboard:
        given = [evaluation(scores=RIGHT + WRONG, has_samples=False, seed=n) for n in numbers]
        return build(reading(*given))

    one, three = seeds(1), seeds(1, 2, 3)
    assert (
        one.scores[one.rows[0], "forward_upper"].interval
        == three.scores[three.rows[0], "forward_upper"].interval
    )


def test_a_score_that_is_no_mean_of_its_samples_is_taken_as_reported() -> None:
    # As lm-eval's perplexity: the samples hold log-likelihoods.
    given = evaluation(metric="perplexity", scores=[-2, -3, -4], higher_is_better=False, stderr=3)
    metric = given.metrics["perplexity"]
    object.__setattr__(metric, "value", 20.1)
    board = build(reading(given))
    score = board.scores[board.rows[0], given.task]
    assert score.interval == reported_interval(20.1, 3, 3, is_share=False)
    assert "no mean of its samples" in score.note


def test_scores_without_bounds_have_an_interval_of_their_own() -> None:
    given = evaluation(metric="bleu", scores=[10, 30, 50, 20])
    board = build(reading(given))
    expected = task_mean_interval([[(10, 1), (30, 1), (50, 1), (20, 1)]], extremes=None)
    assert board.scores[board.rows[0], given.task].interval == expected


def test_a_score_named_like_a_share_that_is_none_is_not_taken_for_one() -> None:
    given = evaluation(metric="f1", scores=[10, 30, 50, 20])
    board = build(reading(given))
    assert board.scores[board.rows[0], given.task].interval.high > 1


def test_one_cluster_has_no_interval_and_that_is_said() -> None:
    board = build(reading(evaluation(scores=[sample(f"d{n}", 1, "all") for n in range(5)])))
    score = board.scores[board.rows[0], "forward_upper"]
    assert score.interval.estimate == 1 and not score.interval.is_known
    assert "fewer than 2 clusters" in score.note


# Metrics


def test_answer_match_comes_before_the_scores_of_stock_tasks() -> None:
    board = build(
        reading(
            evaluation("arc", metric="acc_norm"),
            evaluation("gsm8k", metric="exact_match,strict-match"),
            evaluation("odd", metric="some_metric"),
        )
    )
    found = {column.name: column.metric for column in board.columns if column.kind == "task"}
    assert found == {
        "arc": "acc_norm",
        "gsm8k": "exact_match,strict-match",
        "odd": "some_metric",
    }
    assert board.metric == SEVERAL


def test_all_rows_of_a_task_are_compared_by_one_metric() -> None:
    # Only `acc` is in both, though acc_norm would come first.
    first = evaluation("arc", metric="acc")
    both = {**first.metrics, **evaluation("arc", metric="acc_norm").metrics}
    second = evaluation("arc", metric="acc", model="big")
    object.__setattr__(second, "metrics", both)
    board = build(reading(first, second))
    assert board.metric == "acc" and len(board.scores) == 2


def test_a_row_without_the_metric_of_its_task_is_said() -> None:
    given = reading(evaluation("arc", metric="acc"), evaluation("arc", metric="bleu", model="big"))
    board = build(given)
    assert names(board) == ["tiny · tv"]
    assert "Left out: arc, without acc: big · tv." in board.notes


def test_a_wanted_metric_leaves_out_tasks_without_it_and_says_so() -> None:
    given = reading(
        evaluation("arc", metric="acc"), evaluation("gsm8k", metric="exact_match,strict")
    )
    board = build(given, Choice(metric="exact_match"))
    assert columns(board) == ["gsm8k"]
    assert "Left out, without exact_match: arc." in board.notes


def test_a_metric_that_nothing_has_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="--metric bleu: no task has it; there is: answer_match"):
        build(reading(evaluation()), Choice(metric="bleu"))


# Means


def three_tasks(model: str, *tasks: str) -> list[Evaluation]:
    return [evaluation(task, [1, 0, 1, 0, 1], model=model) for task in tasks]


def test_categories_are_the_kinds_of_this_packages_tasks_and_lm_evals_groups() -> None:
    board = build(
        reading(
            evaluation("forward_a"),
            evaluation("forward_b", groups=("taskvec_forward",)),
            evaluation("mmlu_x", metric="acc", groups=("mmlu",)),
            evaluation("mmlu_y", metric="acc", groups=("mmlu",)),
        )
    )
    means = {column.name: column.tasks for column in board.columns if column.kind == "mean"}
    assert means == {
        "forward": ("forward_a", "forward_b"),
        "mmlu": ("mmlu_x", "mmlu_y"),
        "mean": ("forward_a", "forward_b", "mmlu_x", "mmlu_y"),
    }


def test_a_mean_counts_each_task_once_whatever_its_documents() -> None:
    board = build(
        reading(evaluation("forward_a", [1, 1, 1, 1]), evaluation("forward_b", [0, 1] * 10))
    )
    assert estimate(board, 0, "mean") == pytest.approx(0.75)


def test_means_are_over_the_tasks_that_all_rows_have() -> None:
    given = three_tasks("big", "forward_a", "forward_b", "inverse_a")
    given += three_tasks("tiny", "forward_a", "inverse_a")
    board = build(reading(*given))
    means = {column.name: column.tasks for column in board.columns if column.kind == "mean"}
    assert means["mean"] == ("forward_a", "inverse_a")
    assert means["forward"] == ("forward_a",)
    assert any("2 of 3 tasks that all its rows have, without forward_b" in n for n in board.notes)


def test_rows_without_any_task_of_a_category_do_not_shrink_its_mean() -> None:
    given = three_tasks("big", "forward_a", "forward_b", "classify_a")
    given += three_tasks("tiny", "classify_a")
    board = build(reading(*given))
    forward = next(column for column in board.columns if column.name == "forward")
    assert forward.tasks == ("forward_a", "forward_b")
    assert [estimate(board, row, "forward") for row in (0, 1)] == [pytest.approx(0.6), None]


def test_rows_that_share_no_task_have_no_mean_over_all_and_that_is_said() -> None:
    given = three_tasks("big", "forward_a", "forward_b") + three_tasks("tiny", "inverse_a")
    board = build(reading(*given))
    assert "mean" not in columns(board)
    assert "No mean over all tasks: no task is in all rows." in board.notes


def test_scores_without_bounds_enter_no_mean() -> None:
    given = [evaluation("a", metric="acc"), evaluation("b", metric="acc")]
    board = build(reading(*given, evaluation("c", metric="word_perplexity")))
    assert next(c.tasks for c in board.columns if c.name == "mean") == ("a", "b")
    assert "In no mean, as not scored from 0 to 1: c." in board.notes


def test_a_percentage_called_like_a_share_enters_no_mean() -> None:
    percent = evaluation("c", [100, 0, 50], metric="f1")
    board = build(reading(evaluation("a"), evaluation("b"), percent))
    assert next(c.tasks for c in board.columns if c.name == "mean") == ("a", "b")


def test_a_mean_over_one_task_is_its_score() -> None:
    given = three_tasks("big", "forward_a", "forward_b") + three_tasks("tiny", "forward_a")
    board = build(reading(*given))
    for row in board.rows:
        assert board.scores[row, "mean"].interval == board.scores[row, "forward_a"].interval


def test_a_mean_without_samples_combines_the_tasks_intervals() -> None:
    given = [evaluation("a", RIGHT + WRONG), evaluation("b", RIGHT + WRONG, has_samples=False)]
    board = build(reading(*given))
    row = board.rows[0]
    tasks = [board.scores[row, name].interval for name in ("a", "b")]
    assert board.scores[row, "mean"].interval == combined_interval(tasks)
    assert "independent" in board.scores[row, "mean"].note


# The best


def test_the_best_is_marked_where_it_is_better_than_every_other_row() -> None:
    board = build(
        reading(
            evaluation(scores=RIGHT),
            evaluation(scores=WRONG, model="big"),
            evaluation(scores=WRONG, model="other"),
        )
    )
    assert [row.model for (row, _), score in board.scores.items() if score.best] == ["tiny"]


def test_the_best_is_not_marked_where_one_row_may_be_as_good() -> None:
    board = build(
        reading(
            evaluation(scores=RIGHT),
            evaluation(scores=[*RIGHT[1:], 0], model="big"),
            evaluation(scores=WRONG, model="other"),
        )
    )
    assert not any(score.best for score in board.scores.values())


def test_many_rows_make_it_harder_to_be_the_best() -> None:
    # 6 discordant answers, all one way: p = 2/2⁶ = 0.031, and 0.062 for two comparisons.
    worse = [0] * 6 + [1] * 24
    two = [evaluation(scores=RIGHT), evaluation(scores=worse, model="big")]
    assert any(score.best for score in build(reading(*two)).scores.values())
    three = [*two, evaluation(scores=worse, model="other")]
    assert not any(score.best for score in build(reading(*three)).scores.values())


def test_the_least_perplexity_is_the_best() -> None:
    def scored(model: str, *scores: float) -> Evaluation:
        return evaluation(
            "wiki", scores * 10, model=model, metric="word_perplexity", higher_is_better=False
        )

    board = build(reading(scored("tiny", 9, 8, 9), scored("big", 4, 5, 4)), Choice(sort="wiki"))
    assert [(row.model, board.scores[row, "wiki"].best) for row in board.rows] == [
        ("big", True),
        ("tiny", False),
    ]


@pytest.mark.parametrize("has_samples", [True, False])
def test_rows_that_cannot_be_paired_are_not_marked(has_samples: bool) -> None:
    others = [sample(f"other {number}", 0) for number in range(30)]
    board = build(
        reading(
            evaluation(scores=RIGHT),
            evaluation(scores=others, model="big", has_samples=has_samples),
        )
    )
    assert not any(score.best for score in board.scores.values())


def test_rows_with_other_documents_are_said() -> None:
    board = build(reading(evaluation(scores=RIGHT), evaluation(scores=RIGHT[:20], model="big")))
    assert any(
        "different documents of forward_upper (20 or 30 documents)" in n for n in board.notes
    )


# Choice and order

GIVEN = reading(
    evaluation("forward_a", [0, 1, 0], seed=1),
    evaluation("forward_b", [0, 1, 0], seed=2),
    evaluation("inverse_a", [1, 1, 1], model="big", method="none", shots=10, seed=1),
    evaluation("arc", [1, 0, 0], model="org__large", method="hf", groups=("easy",), metric="acc"),
)


@pytest.mark.parametrize(
    ("choice", "tasks"),
    [
        (Choice(models=("tiny",)), {"forward_a", "forward_b"}),
        (Choice(models=("big", "org*")), {"inverse_a", "arc"}),
        (Choice(methods=("none", "hf")), {"inverse_a", "arc"}),
        (Choice(tasks=("*_a",)), {"forward_a", "inverse_a"}),
        (Choice(groups=("forward",)), {"forward_a", "forward_b"}),
        (Choice(groups=("easy",)), {"arc"}),
        (Choice(shots=(10,)), {"inverse_a"}),
        (Choice(seeds=(1,)), {"forward_a", "inverse_a"}),
        (Choice(tasks=("*_a",), seeds=(1,), shots=(0,)), {"forward_a"}),
    ],
)
def test_what_is_chosen_is_shown(choice: Choice, tasks: set[str]) -> None:
    assert {c.name for c in build(GIVEN, choice).columns if c.kind == "task"} == tasks


def test_a_choice_that_leaves_nothing_names_what_there_is() -> None:
    with pytest.raises(UsageError, match="--models huge leaves nothing; there is: big, org__large"):
        build(GIVEN, Choice(models=("huge",)))
    with pytest.raises(UsageError, match="--shots 3 leaves nothing; there is: 0, 10"):
        build(GIVEN, Choice(shots=(3,)))


def test_nothing_usable_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="nothing to show"):
        build(Reading((), (Problem(Path("x"), "empty"),)))


def test_rows_are_sorted_by_the_mean_by_a_column_and_by_name() -> None:
    given = reading(
        *(evaluation(task, [1, 1, 0], model="a") for task in ("forward_x", "inverse_x")),
        *(evaluation(task, [1, 1, 1], model="b") for task in ("forward_x", "inverse_x")),
        evaluation("generate_x", [0, 0, 0], model="c", method="none"),
    )
    assert [row.model for row in build(given, Choice(sort="inverse_x")).rows] == ["b", "a", "c"]
    assert [row.model for row in build(given).rows] == ["a", "b", "c"]
    complete = Choice(models=("a", "b"))
    assert [row.model for row in build(given, complete).rows] == ["b", "a"]
    assert [row.model for row in build(given, Choice(sort="method")).rows] == ["c", "a", "b"]


def test_an_unknown_column_to_sort_by_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="--sort nope: no such column; accepted: model, method"):
        build(GIVEN, Choice(sort="nope"))


# Notes


def test_versions_that_differ_are_said_with_their_rows() -> None:
    board = build(
        reading(
            evaluation(facts={"lm-eval": "0.4.12", "PyTorch": "2.13"}),
            evaluation(model="big", facts={"lm-eval": "0.4.13", "PyTorch": "2.13"}),
        )
    )
    assert "lm-eval differs: 0.4.12 (tiny · tv); 0.4.13 (big · tv)." in board.notes
    assert not any("PyTorch" in note for note in board.notes)


def test_versions_of_a_task_that_differ_are_said() -> None:
    old, new = (evaluation(method=name, version=name) for name in ("1", "2"))
    board = build(reading(old, new, evaluation("forward_past", version="3")))
    assert "version of forward_upper differs: 1 (tiny · 1); 2 (tiny · 2)." in board.notes
    assert not any("forward_past differs" in note for note in board.notes)


def test_weights_that_differ_under_one_name_are_said_but_not_for_another_dtype() -> None:
    def weights(value: str, method: str, dtype: str) -> Evaluation:
        facts = {"weights sha256": value * 20}
        return evaluation(method=method, facts=facts, settings={"dtype": dtype})

    alike = build(reading(weights("a", "tv", "float32"), weights("b", "tv", "bfloat16")))
    assert not any("weights" in note for note in alike.notes)
    other = build(reading(weights("a", "tv", "float32"), weights("b", "tr", "float32")))
    assert any("weights sha256 differs: aaaaaaaaaaaa (" in note for note in other.notes)


def test_seeds_that_differ_between_rows_are_said() -> None:
    board = build(reading(evaluation(seed=1), evaluation(seed=2), evaluation(model="big", seed=1)))
    assert "Few-shot seeds differ: 1 (big · tv); 1, 2 (tiny · tv)." in board.notes


def test_problems_with_files_stay_with_the_table() -> None:
    problem = Problem(Path("x.json"), "cut off")
    assert build(Reading((evaluation(),), (problem,))).problems == (problem,)
