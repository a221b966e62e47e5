from __future__ import annotations

import importlib.util
import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from harness_ext.compare.heads_rows import read_models
from harness_ext.compare.heads_runs import ABLATED, ADDED, FRACTION, ICL, SHOTS, ZERO_SHOT, Arm
from harness_ext.config import SteeringConfig
from harness_ext.errors import UsageError
from tests.compare.heads_output import row, runs_of, write

TASK = "classify_topic"
RIGHT = [1, 0, 1, 1]
DRIVER = Path(__file__).parents[2] / "results/heads.py"


def test_every_cell_of_every_plan_is_read_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("driver", DRIVER)
    assert spec is not None and spec.loader is not None
    driver = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "driver", driver)
    spec.loader.exec_module(driver)
    rows = []
    for plan in driver.PLANS.values():
        for cell in plan(TASK, Namespace(seeds=2, shots=SHOTS, dev=25)):
            arm = Arm(
                cell.steering["method"], cell.steering.get("ablate", "none"), cell.shots,
                cell.steering.get("head_fraction", FRACTION),
            )  # fmt: skip
            rows.append({**row(TASK, cell.seed, arm, RIGHT), "steering": cell.steering})
            rows[-1]["key"] = cell.key
    found = runs_of(tmp_path, rows)
    fractions = {Arm(k, fraction=f) for k in ("tr", "tl", "random") for f in driver.FRACTIONS}
    assert {arm for _, arm in found.rows} == {
        ZERO_SHOT, ICL, *ADDED.values(), *ABLATED.values(), *fractions,
    }  # fmt: skip
    assert found.seeds(TASK, ZERO_SHOT) == {0}
    assert all(found.seeds(TASK, a) == {0, 1} for _, a in found.rows if a != ZERO_SHOT)


def test_the_fraction_of_a_row_without_one_is_the_default_of_the_package() -> None:
    assert SteeringConfig().head_fraction == FRACTION


def test_a_row_keeps_scores_choices_and_where_it_stands(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, [row(TASK, 2, ADDED["random"], RIGHT, in_set=[1, 1, 1, 0])])
    found = runs.rows[TASK, ADDED["random"]][2]
    assert found.place == f"{tmp_path / 'tiny.jsonl'}, line 1"
    assert found.scores == {"answer_match": (1, 0, 1, 1), "tr_ratio": (1, 1, 1, 0)}
    (choice,) = found.choices
    assert vars(choice) == {"heads": 3, "layer": 5, "strength": 2.0, "development": 0.7}


def test_models_are_named_as_their_files_and_read_in_order(tmp_path: Path) -> None:
    for model in ("owner__b", "a"):
        write(tmp_path, [row(TASK, 0, ICL, RIGHT)], model)
    assert [runs.model for runs in read_models(tmp_path)] == ["a", "owner/b"]
    assert read_models(tmp_path / "nowhere") == []


@pytest.mark.parametrize("text", ["", "\n"])
def test_a_file_without_rows_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "tiny.jsonl").write_text(text)
    with pytest.raises(UsageError, match=r"tiny\.jsonl is empty"):
        read_models(tmp_path)


@pytest.mark.parametrize("text", ["{}\n", "[1]\n", '{"key": "[', "null\n"])
def test_a_file_that_holds_something_else_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "tiny.jsonl").write_text(text)
    with pytest.raises(UsageError, match=r"tiny\.jsonl, line 1"):
        read_models(tmp_path)


def test_a_line_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, [row(TASK, seed, ICL, RIGHT) for seed in range(2)])
    path.write_text(path.read_text()[:-40])
    with pytest.raises(UsageError, match=r"tiny\.jsonl, line 2: cut off"):
        read_models(tmp_path)


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "tiny.jsonl").mkdir()
    with pytest.raises(UsageError, match=r"tiny\.jsonl cannot be read"):
        read_models(tmp_path)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no task": ({"task": None}, "task=None"),
    "a text for a seed": ({"seed": "0"}, "seed='0'"),
    "a truth value for a seed": ({"seed": True}, "seed=True"),
    "an unknown task": ({"task": "arc_easy"}, "task='arc_easy' begins with none of classify_"),
    "another method": ({"steering": {"method": "tv", "seed": 1}}, "'tv'.* none of the plans"),
    "another argument": ({"steering": {"method": "tr", "seed": 1, "inject_at": "own"}}, "'own'"),
    "another seed": ({"steering": {"method": "tr", "seed": 2}}, "seed 1 is in none"),
    "other shots": ({"shots": 4}, "at 4 shots"),
    "a fraction of none": ({"steering": {"method": "tr", "head_fraction": "x"}}, "'x'"),
    "all and more": ({"steering": {"method": "tr", "head_fraction": 1.5}}, "1.5"),
    "ablation of a share": (
        {"steering": {"method": "none", "ablate": "tr", "head_fraction": 0.1}, "shots": SHOTS},
        "0.1",
    ),
    "a method that is a list": ({"steering": {"method": ["tr"]}}, r"\['tr'\]"),
    "numbers for hashes": ({"doc_hashes": [1, 2, 3, 4]}, "not all texts"),
    "a document twice": ({"doc_hashes": ["a", "a", "b", "c"]}, "3 documents for 4 queries"),
    "a query too few": ({"queries": ["a", "b", "c"]}, "4 documents for 3 queries"),
    "one query": ({"queries": ["a"] * 4}, "1 query: there is no interval"),
    "no scores": ({"scores": {}}, "no answer_match for each of 4"),
    "no TR ratio": ({"scores": {"answer_match": RIGHT}}, "no tr_ratio for each of 4"),
    "a score too few": ({"scores": {"answer_match": [1], "tr_ratio": RIGHT}}, "no answer_match"),
    "half a score": (
        {"scores": {"answer_match": [0.5, 1, 1, 1], "tr_ratio": RIGHT}},
        "answer_match is not 0 or 1",
    ),
    "a score that is a list": (
        {"scores": {"answer_match": [[], 1, 1, 1], "tr_ratio": RIGHT}},
        "answer_match is not 0 or 1",
    ),
    "no record": ({"record": {}}, "record does not say which heads"),
    "no draws": ({"record": {"draws": []}}, "no draws"),
    "draws that are a number": ({"record": {"draws": 3}}, "record does not say"),
    "draws of texts": ({"record": {"draws": ["a"]}}, "record does not say"),
    "an endless layer": (
        {"record": {"layer": float("inf"), "strength": 1, "heads": []}},
        "record does not say",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_row_that_is_foreign_is_named_with_what_is_wrong(tmp_path: Path, case: str) -> None:
    change, said = WRONG[case]
    changed = {**row(TASK, 1, ADDED["tr"], RIGHT), **change}
    identity = [changed["task"], changed["seed"], changed["shots"], changed["steering"]]
    changed["key"] = json.dumps(identity, sort_keys=True)
    write(tmp_path, [row(TASK, 0, ICL, RIGHT), changed])
    with pytest.raises(UsageError, match=rf"tiny\.jsonl, line 2: .*{said}"):
        read_models(tmp_path)


def test_a_key_of_another_cell_is_named(tmp_path: Path) -> None:
    changed = {**row(TASK, 1, ADDED["tr"], RIGHT), "seed": 2}
    write(tmp_path, [changed])
    with pytest.raises(UsageError, match=r"line 1: key=.* is not that of"):
        read_models(tmp_path)


def test_a_run_that_stands_twice_is_named_with_both_places(tmp_path: Path) -> None:
    twice = row(TASK, 0, ICL, RIGHT)
    write(tmp_path, [twice, row(TASK, 1, ICL, RIGHT), twice])
    with pytest.raises(UsageError, match=r"line 3: the run of .*line 1 stands again"):
        read_models(tmp_path)


def test_rows_of_a_task_over_other_documents_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [row(TASK, 0, ICL, RIGHT), row(TASK, 0, ADDED["tr"], RIGHT[:3])])
    with pytest.raises(UsageError, match=r"line 2: not the documents of .*line 1"):
        read_models(tmp_path)


def test_rows_of_two_models_in_one_file_are_refused(tmp_path: Path) -> None:
    other = {**row(TASK, 0, ADDED["tl"], RIGHT), "weights_sha256": "other"}
    write(tmp_path, [row(TASK, 0, ICL, RIGHT), row(TASK, 0, ADDED["tr"], RIGHT), other])
    with pytest.raises(UsageError, match=r"line 3: weights_sha256='other'.*line 2 has 'abc'"):
        read_models(tmp_path)
