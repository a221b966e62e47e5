from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness_ext.compare.record import record
from harness_ext.compare.runs import RESULTS, Cell, cell_of, read_runs
from harness_ext.errors import UsageError
from tests.compare.output import answered, write_output


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder of results with one cell, tiny/tv-0shot, of 4 answers to one task."""
    output = write_output(tmp_path / "out", answered(["forward_upper"], lambda doc: 1))
    record([output], tmp_path / "results")
    return tmp_path / "results"


def change_samples(folder: Path, number: int, **changes: Any) -> None:
    path = folder / "tiny/tv-0shot/samples.jsonl"
    rows = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    rows[number] |= changes
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def change_results(folder: Path, **changes: Any) -> None:
    path = folder / "tiny/tv-0shot/results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_what_was_recorded_is_read_back(recorded: Path) -> None:
    (run,) = read_runs(recorded)
    assert run.cell == Cell("tiny", "tv", 0)
    assert run.results["config"]["fewshot_seed"] == 1234
    answers = run.answers["forward_upper"]
    assert [answer.query for answer in answers] == ["a0", "a1", "a2", "a3"]
    assert vars(answers[2]) | {"doc_hash": ""} == {
        "task": "forward_upper",
        "doc_hash": "",
        "query": "a2",
        "target": "A2",
        "answer": " A2",
        "pair": "a2|A2",
        "side": "x",
        "draw": 0,
        "scores": {"answer_match": 1, "exact_match": 1},
    }


def test_a_folder_that_is_not_there_holds_no_runs(tmp_path: Path) -> None:
    assert read_runs(tmp_path / "results") == ()


def test_other_files_beside_the_cells_are_no_runs(recorded: Path) -> None:
    (recorded / "README.md").write_text("about the results")
    (recorded / "tiny/notes").mkdir()
    assert len(read_runs(recorded)) == 1


def test_a_truncated_samples_file_is_named_with_its_line(recorded: Path) -> None:
    path = recorded / "tiny/tv-0shot/samples.jsonl"
    path.write_text(path.read_text()[:-30])
    with pytest.raises(UsageError, match=r"samples\.jsonl, line 4: cut off or not JSON"):
        read_runs(recorded)


def test_missing_answers_are_counted(recorded: Path) -> None:
    path = recorded / "tiny/tv-0shot/samples.jsonl"
    path.write_text(path.read_text().split("\n", 1)[1])
    with pytest.raises(UsageError, match=r"3 answers to forward_upper, where .* counts 4"):
        read_runs(recorded)


def test_a_missing_samples_file_is_named(recorded: Path) -> None:
    (recorded / "tiny/tv-0shot/samples.jsonl").unlink()
    with pytest.raises(UsageError, match=r"samples\.jsonl cannot be read"):
        read_runs(recorded)


def test_answers_to_a_task_that_the_results_do_not_know_are_named(recorded: Path) -> None:
    change_results(recorded, **{"n-samples": {}})
    with pytest.raises(UsageError, match=r"4 answers to forward_upper, where .* counts 0"):
        read_runs(recorded)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer_match": float("nan")}, "answer_match=nan is neither 0 nor 1"),
        ({"answer_match": 0.5}, "answer_match=0.5 is neither 0 nor 1"),
        ({"exact_match": [1]}, r"exact_match=\[1\] is neither 0 nor 1"),
        ({"doc_hash": None}, "doc_hash=None is not a text"),
        ({"pair": 3}, "pair=3 is not a text"),
        ({"draw": "first"}, "draw='first' is not a whole number"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(
    recorded: Path, changes: dict[str, Any], message: str
) -> None:
    change_samples(recorded, 1, **changes)
    with pytest.raises(UsageError, match=rf"samples\.jsonl, line 2: {message}"):
        read_runs(recorded)


def test_a_document_that_stands_twice_is_named(recorded: Path) -> None:
    change_samples(recorded, 1, doc_hash="abc")
    change_samples(recorded, 2, doc_hash="abc")
    with pytest.raises(UsageError, match="a document of forward_upper stands twice: abc"):
        read_runs(recorded)


@pytest.mark.parametrize("text", ["{", "[]", '{"config": {}}', "\xff"])
def test_a_results_file_that_is_none_is_named(recorded: Path, text: str) -> None:
    path = recorded / "tiny/tv-0shot/results.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"results\.json (cannot be read|is no results file)"):
        read_runs(recorded)


def test_a_cell_in_the_wrong_place_is_named(recorded: Path) -> None:
    (recorded / "tiny/tv-0shot").rename(recorded / "tiny/tv-4shot")
    with pytest.raises(UsageError, match=r"tv-4shot/results\.json holds .* tiny/tv-0shot"):
        read_runs(recorded)


@pytest.mark.parametrize("name", ["../../etc", "", ".", "a/b", "a" * 101, None, 7])
def test_a_model_name_that_is_no_plain_name_is_refused(recorded: Path, name: Any) -> None:
    change_results(recorded, model_name=name)
    with pytest.raises(UsageError, match="cannot name a folder"):
        read_runs(recorded)


@pytest.mark.parametrize("shots", [{"forward_upper": -1}, {"forward_upper": "10"}, {}])
def test_a_number_of_shots_that_is_none_is_refused(recorded: Path, shots: Any) -> None:
    change_results(recorded, **{"n-shot": shots})
    with pytest.raises(UsageError, match="--num_fewshot"):
        read_runs(recorded)


def test_reading_results_loads_no_model_library() -> None:
    code = (
        "import sys, harness_ext.compare.record, harness_ext.compare.tables\n"
        "sys.exit(bool({'torch', 'transformers', 'lm_eval'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "method"),
    [
        ({"method": "none", "ablate": "tl"}, "ablate_tl"),
        ({"method": "none", "ablate": "none"}, "none"),
        ({"method": "tr", "ablate": "none"}, "tr"),
    ],
)
def test_a_run_with_heads_knocked_out_is_a_cell_of_its_own(
    recorded: Path, arguments: dict[str, str], method: str
) -> None:
    results = json.loads((recorded / "tiny/tv-0shot" / RESULTS).read_text())
    results["config"]["steering"] = {"arguments": arguments}
    assert cell_of(results, recorded).method == method
