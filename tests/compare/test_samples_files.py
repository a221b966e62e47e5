from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness_ext.compare.evaluations import Sample
from harness_ext.compare.samples_files import read_samples
from tests.compare.output import DATE, answered, write_output

TASK = "forward_upper"


def stock(number: int, **fields: Any) -> dict[str, Any]:
    """A row of a multiple-choice task of lm-eval."""
    return {
        "doc_id": number,
        "doc": {"question": f"question {number}"},
        "target": "1",
        "arguments": {
            "gen_args_0": {"arg_0": f"prompt {number}", "arg_1": " no"},
            "gen_args_1": {"arg_0": f"prompt {number}", "arg_1": " yes"},
        },
        "resps": [[["-2.5", "False"]], [["-0.5", "True"]]],
        "filtered_resps": [["-2.5", "False"], ["-0.5", "True"]],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": f"{number:x}".ljust(64, "0"),
        "acc": 1.0,
        "acc_norm": 0.0,
        **fields,
    }


def read_rows(folder: Path, rows: list[Any], task: str = "arc") -> tuple[Sample, ...] | None:
    """What is read of rows; texts are lines as they are."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / f"samples_{task}_{DATE}.jsonl").write_text("\n".join(lines) + "\n")
    found, problems = read_samples(folder / f"results_{DATE}.json", {task: {}})
    assert (task in found) != bool(problems)
    return found.get(task)


def said(folder: Path) -> list[str]:
    return [
        str(problem) for problem in read_samples(folder / f"results_{DATE}.json", {"arc": {}})[1]
    ]


def test_a_word_task_has_clusters_by_pair(tmp_path: Path) -> None:
    path = write_output(tmp_path, answered(["bijection_upper"], lambda doc: 1, count=2, draws=2))
    samples = read_samples(path, {"bijection_upper": {}})[0]["bijection_upper"]
    assert [sample.cluster for sample in samples] == ["a0|A0", "a0|A0", "a1|A1", "a1|A1"] * 2
    assert samples[0].query == "a0" and samples[0].answer == " A0"
    assert samples[0].prompt == "Example: a0 →"
    assert samples[0].scores == {"answer_match": 1, "exact_match": 1}


def test_a_choice_is_the_text_of_the_likeliest_answer(tmp_path: Path) -> None:
    samples = read_rows(tmp_path, [stock(0), stock(1)])
    assert samples is not None
    assert (samples[0].answer, samples[0].prompt) == (" yes", "prompt 0")
    assert samples[0].scores == {"acc": 1, "acc_norm": 0}
    assert [sample.cluster for sample in samples] == [s.doc_hash for s in samples]


def test_filters_of_one_document_are_one_sample(tmp_path: Path) -> None:
    rows = [
        stock(number, filter=name, metrics=["exact_match"], exact_match=float(name == "strict"))
        for name in ("strict", "flexible")
        for number in range(3)
    ]
    samples = read_rows(tmp_path, rows)
    assert samples is not None and len(samples) == 3
    assert samples[0].scores == {"exact_match,strict": 1, "exact_match,flexible": 0}


def test_each_filter_has_its_own_answer(tmp_path: Path) -> None:
    rows = [
        stock(0, filter=name, metrics=["exact_match"], exact_match=0.0, filtered_resps=[answer])
        for name, answer in (("strict", "[invalid]"), ("flexible", "18"))
    ]
    (sample,) = read_rows(tmp_path, rows) or ()
    assert sample.answered("exact_match,strict") == "[invalid]"
    assert sample.answered("exact_match,flexible") == "18"


def test_equal_documents_are_told_apart_by_their_order_and_are_one_cluster(tmp_path: Path) -> None:
    rows = [stock(number, doc_hash="a" * 64, acc=float(number == 2)) for number in (4, 2)]
    samples = read_rows(tmp_path, rows)
    assert samples is not None
    assert [(one.doc_hash, one.cluster, one.scores["acc"]) for one in samples] == [
        ("a" * 16, "a" * 16, 0.0),
        ("a" * 16 + ".2", "a" * 16, 1.0),
    ]


def test_samples_belong_to_the_results_file_of_their_date(tmp_path: Path) -> None:
    for date in (DATE, DATE.replace("07", "08")):
        (tmp_path / f"samples_arc_{date}.jsonl").write_text(json.dumps(stock(0)) + "\n")
    assert len(read_samples(tmp_path / f"of_mine_{DATE}.json", {"arc": {}})[0]["arc"]) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"doc_id": 1, "doc"', "line 2: cut off, or not JSON"),
        ("[1]", "line 2: not a row"),
        (stock(1, doc_hash=None), "line 2: doc_hash=None: without it answers cannot be paired"),
        (stock(0), "stands twice"),
    ],
)
def test_damaged_samples_are_not_used_at_all_and_that_is_told(
    tmp_path: Path, row: Any, message: str
) -> None:
    assert read_rows(tmp_path, [stock(0), row]) is None
    (problem,) = said(tmp_path)
    assert message in problem and f"samples_arc_{DATE}.jsonl" in problem


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / f"samples_arc_{DATE}.jsonl").write_bytes(b"\xff\xfe\n")
    assert "cannot be read" in said(tmp_path)[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"doc": None},
        {"doc": "text"},
        {"metrics": None},
        {"metrics": ["gone"]},
        {"filtered_resps": None},
        {"filtered_resps": [[]]},
        {"filtered_resps": [["x", "False"], [None, 1]]},
        {"arguments": [["prompt", " no"]]},
        {"arguments": {"gen_args_0": 3}},
        {"acc": [0.0, 1]},
        {"acc": "1.0"},
        {"target": None},
        {"filter": 3},
    ],
)
def test_odd_rows_raise_nothing(tmp_path: Path, fields: dict[str, Any]) -> None:
    read_rows(tmp_path, [stock(0, **fields), stock(1)])


def test_a_task_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / f"samples_x_{DATE}.jsonl").write_text(json.dumps(stock(0)))
    found = read_samples(
        tmp_path / "inner" / f"results_{DATE}.json", {f"/../../samples_x_{DATE}": {}}
    )
    assert found == ({}, [])


@pytest.mark.parametrize("task", ["x" * 5000, "nul\0", "lone \udc80"])
def test_a_task_that_no_file_can_be_named_after_has_no_samples(tmp_path: Path, task: str) -> None:
    assert read_samples(tmp_path / f"results_{DATE}.json", {task: {}}) == ({}, [])


def test_recorded_samples_are_read_by_task(tmp_path: Path) -> None:
    rows = [
        {"task": task, "doc_hash": f"{task}{n}", "query": f"q{n}", "target": "t", "answer": "a",
         "pair": "p", "answer_match": n}
        for task in ("a", "b") for n in (0, 1)
    ]  # fmt: skip
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found, problems = read_samples(tmp_path / "results.json", {"a": {}, "b": {}})
    assert not problems and set(found) == {"a", "b"}
    assert [(s.query, s.cluster, s.scores["answer_match"]) for s in found["b"]] == [
        ("q0", "p", 0),
        ("q1", "p", 1),
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400])
def test_a_score_that_is_no_number_costs_no_other_score(tmp_path: Path, value: float) -> None:
    (tmp_path / f"samples_arc_{DATE}.jsonl").write_text(
        "".join(json.dumps(stock(n, acc_norm=value if n else 1.0)) + "\n" for n in range(3))
    )
    found, problems = read_samples(tmp_path / f"results_{DATE}.json", {"arc": {}})
    assert [dict(sample.scores) for sample in found["arc"]] == [
        {"acc": 1.0, "acc_norm": 1.0}, {"acc": 1.0}, {"acc": 1.0},
    ]  # fmt: skip
    (problem,) = problems
    assert "line 2: acc_norm=" in problem.message and not problem.unused


@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
def test_empty_lines_at_the_end_are_no_rows(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"samples_arc_{DATE}.jsonl").write_text(json.dumps(stock(0)) + ending)
    found, problems = read_samples(tmp_path / f"results_{DATE}.json", {"arc": {}})
    assert len(found["arc"]) == 1 and not problems


def test_a_file_without_samples_is_told(tmp_path: Path) -> None:
    (tmp_path / f"samples_arc_{DATE}.jsonl").write_text("")
    assert "holds no samples" in said(tmp_path)[0]
