from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.metrics import mean_stderr

from harness_ext.errors import UsageError
from harness_ext.pair_lists import read_pairs
from tasks.word_task import clustered_stderr, list_path

Rows = list[dict[str, Any]]


def row(x: str, y: str, split: str = "train", **also: list[str]) -> dict[str, Any]:
    return {"x": x, "y": y, "split": split, **also}


MIXED: Rows = [
    row("dog", "chien"),
    row("hello", "bonjour", "test", x_also=["hi"], y_also=["salut"]),
    row("cat", "chat", "test"),
]

CLUSTERS = {"a": [1, 1, 1], "b": [0, 1], "c": [0, 0, 0, 0], "d": [1, 0, 1]}


@pytest.mark.parametrize(
    ("direction", "queries"),
    [
        ("forward", ["hello", "cat"]),
        ("inverse", ["bonjour", "chat"]),
        ("bijection", ["hello", "bonjour", "cat", "chat"]),
    ],
)
def test_queries_come_from_the_sides_of_the_direction(
    make_task: Any, direction: str, queries: list[str]
) -> None:
    task = make_task(MIXED, direction)
    assert [doc["query"] for doc in task.eval_docs][: len(queries)] == queries


def test_a_document_holds_the_query_the_accepted_answers_and_where_they_come_from(
    make_task: Any,
) -> None:
    forward, inverse = list(make_task(MIXED, "bijection").eval_docs)[:2]
    assert forward == {
        "query": "hello",
        "target": "bonjour",
        "answers": ["bonjour", "salut"],
        "pair": "hello|bonjour",
        "side": "x",
        "draw": 0,
    }
    assert inverse == forward | {
        "query": "bonjour",
        "target": "hello",
        "answers": ["hello", "hi"],
        "side": "y",
    }


def test_few_queries_stand_again_draw_by_draw_until_there_are_50_documents(make_task: Any) -> None:
    docs = list(make_task(MIXED, "inverse").eval_docs)
    assert [(doc["query"], doc["draw"]) for doc in docs] == [
        (query, draw) for draw in range(25) for query in ("bonjour", "chat")
    ]


@pytest.mark.parametrize(("queries", "documents"), [(49, 98), (50, 50), (51, 51)])
def test_draws_are_whole_and_no_more_than_needed(
    make_task: Any, queries: int, documents: int
) -> None:
    rows = [row("dog", "chien"), *(row(f"q{n}", f"Q{n}", "test") for n in range(queries))]
    assert len(make_task(rows, "forward").eval_docs) == documents


def test_demonstrations_are_the_train_pairs_in_one_draw(make_task: Any) -> None:
    docs = make_task(MIXED, "bijection").fewshot_docs()
    assert [(doc["query"], doc["draw"]) for doc in docs] == [("dog", 0), ("chien", 0)]


def test_a_pair_of_equal_words_has_one_query_in_a_bijection(make_task: Any) -> None:
    task = make_task([row("a", "a"), row("b", "b", "test")], "bijection")
    assert {doc["query"] for doc in task.eval_docs} == {"b"}
    assert len({doc["draw"] for doc in task.eval_docs}) == 50


@pytest.mark.parametrize(
    ("direction", "words"),
    [
        ("forward", {"chien", "bonjour", "salut", "chat"}),
        ("inverse", {"dog", "hello", "hi", "cat"}),
        ("bijection", {"chien", "bonjour", "salut", "chat", "dog", "hello", "hi", "cat"}),
    ],
)
def test_the_output_space_is_every_accepted_answer_of_both_splits(
    make_task: Any, direction: str, words: set[str]
) -> None:
    assert make_task(MIXED, direction).output_space == words


def test_accepted_answers_begin_with_the_target(make_task: Any) -> None:
    task = make_task(MIXED, "forward")
    assert task.accepted_answers(task.eval_docs[0]) == ["bonjour", "salut"]


def test_a_prompt_ends_in_the_cue_and_shows_one_demonstration_per_line(make_task: Any) -> None:
    task = make_task(MIXED, "forward")
    doc = task.eval_docs[0]
    assert task.fewshot_context(doc, num_fewshot=0) == "Example: hello →"
    assert task.fewshot_context(doc, num_fewshot=1) == "Example: dog → chien\nExample: hello →"


def test_demonstrations_are_those_the_sampler_draws_for_the_document(
    make_task: Any, rows: Rows
) -> None:
    task = make_task(rows, "bijection")
    for doc in list(task.eval_docs)[:5]:
        shown = task.sampler.order(doc)[:4]
        lines = [f"Example: {shot['query']} → {shot['target']}" for shot in shown]
        prompt = task.fewshot_context(doc, num_fewshot=4)
        assert prompt.split("\n") == [*lines, f"Example: {doc['query']} →"]


def test_a_sampler_put_in_its_place_is_used_as_it_is(make_task: Any, rows: Rows) -> None:
    class Fixed:
        def sample(self, n: int, eval_doc: Any = None) -> list[dict[str, str]]:
            return [{"query": "given", "target": "shot"}] * n

    task = make_task(rows, "forward")
    task.sampler = fixed = Fixed()
    prompt = task.fewshot_context(task.eval_docs[0], num_fewshot=1)
    assert prompt == "Example: given → shot\nExample: q20 →"
    assert task.sampler is fixed


def test_too_many_demonstrations_are_refused_naming_the_task(make_task: Any, rows: Rows) -> None:
    task = make_task(rows, "forward")
    sampler = task.sampler
    with pytest.raises(UsageError, match=r"forward_mine: 21 demonstrations.*20 available"):
        task.fewshot_context(task.eval_docs[0], num_fewshot=21)
    assert task.sampler is sampler


def test_a_score_comes_with_its_query_where_queries_stand_in_several_documents(
    make_task: Any, rows: Rows
) -> None:
    task = make_task(rows, "forward")
    scores = task.process_results(task.eval_docs[3], [" Q23 and on"])
    assert scores == {
        "answer_match": 1.0,
        "exact_match": 0.0,
        "tr_ratio": 1.0,
        "answer_match_stderr": ("q23", 1.0),
        "exact_match_stderr": ("q23", 0.0),
        "tr_ratio_stderr": ("q23", 1.0),
    }
    assert scores.keys() == task.aggregation().keys()


def test_a_score_comes_alone_where_each_query_stands_once(make_task: Any) -> None:
    rows = [row("dog", "chien"), *(row(f"q{n}", f"Q{n}", "test") for n in range(50))]
    task = make_task(rows, "forward")
    assert list(task.process_results(task.eval_docs[0], ["Q0"])) == list(task.aggregation())
    assert list(task.aggregation()) == ["answer_match", "exact_match", "tr_ratio"]


def test_dumped_functions_are_named_not_quoted(make_task: Any) -> None:
    config = make_task(MIXED, "forward").dump_config()
    assert config["process_results"] == "metrics.process_results"
    assert config["fewshot_config"]["sampler"] == "sampler.EpisodeSampler"
    json.dumps(config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset_kwargs": {"direction": "sideways"}}, "forward_mine: direction=sideways"),
        ({"dataset_kwargs": {}}, "forward, inverse, bijection"),
        ({"dataset_name": "klingon"}, "no word list klingon.*upper"),
        ({"dataset_name": None}, "no word list None"),
        ({"dataset_name": "missing.jsonl"}, r"no word list missing\.jsonl"),
    ],
)
def test_a_yaml_that_names_no_usable_data_is_refused(
    make_task: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_task(MIXED, "forward", **settings)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_list_without_one_of_the_splits_is_refused(make_task: Any, split: str) -> None:
    with pytest.raises(UsageError, match=f"has no {split} pair"):
        make_task([r for r in MIXED if r["split"] != split], "forward")


SENTENCES: Rows = [
    {"text": "What a day!", "label": "good", "split": "train"},
    {"text": "What a mess!", "label": "bad", "split": "train"},
    {"text": "It rained again.", "label": "bad", "split": "test"},
    {"text": "We won at last.", "label": "good", "split": "test"},
]
SYMBOLS = {"good": "@", "bad": "#"}


def with_symbols(make_task: Any, symbols: Any, rows: Rows = SENTENCES) -> Any:
    return make_task(rows, "forward", dataset_kwargs={"direction": "forward", "symbols": symbols})


def test_sentences_are_pairs_of_a_text_and_its_label(make_task: Any) -> None:
    task = make_task(SENTENCES, "forward")
    assert task.output_space == {"good", "bad"}
    assert task.eval_docs[0] == {
        "query": "It rained again.",
        "target": "bad",
        "answers": ["bad"],
        "pair": "It rained again.|bad",
        "side": "x",
        "draw": 0,
    }


def test_symbols_are_shown_and_accepted_in_the_place_of_y_and_nothing_else_is_changed(
    make_task: Any,
) -> None:
    plain, symbols = make_task(SENTENCES, "forward"), with_symbols(make_task, SYMBOLS)
    assert symbols.output_space == {"@", "#"}
    for one, other in zip(plain.eval_docs, symbols.eval_docs, strict=True):
        symbol = SYMBOLS[one["target"]]
        assert other == {**one, "target": symbol, "answers": [symbol]}
        shown = plain.fewshot_context(one, num_fewshot=2)
        for word in SYMBOLS:
            shown = shown.replace(f"→ {word}", f"→ {SYMBOLS[word]}")
        assert symbols.fewshot_context(other, num_fewshot=2) == shown


def test_an_answer_is_scored_by_the_symbols(make_task: Any) -> None:
    task = with_symbols(make_task, SYMBOLS)
    doc = task.eval_docs[0]
    scores = [task.process_results(doc, [text]) for text in (" #", " @ and", " bad")]
    assert [score["answer_match"] for score in scores] == [1.0, 0.0, 0.0]
    assert [score["tr_ratio"] for score in scores] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "symbols",
    [{"good": "@"}, {**SYMBOLS, "fair": "%"}, {"good": "@", "bad": "@"}, {"good": "@", "Bad": "#"}],
    ids=["missing", "too many", "shared", "misspelt"],
)
def test_symbols_that_do_not_fit_the_answers_are_refused(make_task: Any, symbols: Any) -> None:
    with pytest.raises(UsageError, match=r"forward_mine: symbols=.*each of bad, good"):
        with_symbols(make_task, symbols)


def test_symbols_reach_the_metrics_of_a_bijection(make_task: Any) -> None:
    task = make_task(
        [row("dog", "chien"), row("cat", "chat", "test")],
        "bijection",
        dataset_kwargs={"direction": "bijection", "symbols": {"chien": "@", "chat": "#"}},
    )
    forward, inverse = list(task.eval_docs)[:2]
    assert (forward["query"], forward["target"]) == ("cat", "#")
    assert (inverse["query"], inverse["target"]) == ("#", "cat")
    scores = task.process_results(forward, [" #"])
    assert scores["pair_match"] == scores["side_match"] == 1.0


def test_a_list_is_found_by_its_name_in_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_pairs(list_path("upper"))[0].name == "a|A"


def test_with_one_score_per_cluster_the_standard_error_is_lm_evals() -> None:
    scores = [1.0, 0.0, 0.0, 1.0, 1.0, 0.25]
    rows = [(str(n), score) for n, score in enumerate(scores)]
    assert clustered_stderr(rows) == pytest.approx(mean_stderr(scores), rel=1e-12)


def test_with_equal_clusters_the_standard_error_is_that_of_the_cluster_means() -> None:
    rows = [(name, float(score)) for name, scores in CLUSTERS.items() for score in scores[:2]]
    means = [statistics.fmean(scores[:2]) for scores in CLUSTERS.values()]
    assert clustered_stderr(rows) == pytest.approx(mean_stderr(means), rel=1e-12)


def test_the_order_of_documents_does_not_matter() -> None:
    rows = [(name, float(score)) for name, scores in CLUSTERS.items() for score in scores]
    assert clustered_stderr(rows[::-1]) == pytest.approx(clustered_stderr(rows), rel=1e-12)


def test_with_unequal_clusters_it_is_the_spread_of_the_mean_over_repeated_experiments() -> None:
    rng = random.Random(0)

    def experiment() -> list[tuple[str, float]]:
        """40 queries of their own difficulty, each in 1 to 5 documents."""
        rows: list[tuple[str, float]] = []
        for query in range(40):
            chance = rng.choice([0.1, 0.5, 0.95])
            rows += [
                (str(query), float(rng.random() < chance)) for _ in range(rng.choice([1, 2, 5]))
            ]
        return rows

    experiments = [experiment() for _ in range(1500)]
    spread = statistics.stdev(statistics.fmean(s for _, s in rows) for rows in experiments)
    estimates = [float(clustered_stderr(rows)) for rows in experiments]
    naive = [mean_stderr([s for _, s in rows]) for rows in experiments]
    assert math.sqrt(statistics.fmean(e**2 for e in estimates)) == pytest.approx(spread, rel=0.06)
    assert math.sqrt(statistics.fmean(e**2 for e in naive)) < 0.85 * spread


def test_one_cluster_alone_has_no_standard_error() -> None:
    assert clustered_stderr([("a", 1.0), ("a", 0.0)]) == "N/A"
