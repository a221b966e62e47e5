"""What stands in the YAML files of the word tasks, read as lm-eval reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

BOTH = "french italian spanish german gerund past participle plural capital element numeral upper"
EXPECTED = {
    "forward": f"{BOTH} next_letter language continent religion list_first list_last antonym",
    "inverse": f"{BOTH} next_letter",
    "bijection": f"{BOTH} antonym copy",
}
CATEGORIES = {
    "taskvec_knowledge": "capital continent element language religion",
    "taskvec_algorithmic": "copy list_first list_last next_letter numeral upper",
    "taskvec_translation": "french german italian spanish",
    "taskvec_linguistic": "antonym gerund participle past plural",
}


def named(direction: str) -> set[str]:
    return {f"{direction}_{name}" for name in EXPECTED[direction].split()}


WORD_TASKS = sorted(name for direction in EXPECTED for name in named(direction))


@pytest.fixture(scope="module")
def tasks(manager: TaskManager) -> dict[str, Any]:
    loaded: dict[str, Any] = manager.load(WORD_TASKS)["tasks"]
    return loaded


def test_there_is_a_task_for_every_list_and_direction(manager: TaskManager) -> None:
    others = ("classify_", "generate_", "hub_")
    assert [name for name in manager.all_subtasks if not name.startswith(others)] == WORD_TASKS


def test_a_tasks_name_says_its_list_and_its_direction(tasks: dict[str, Any]) -> None:
    for name, task in tasks.items():
        assert name == f"{task.direction}_{task.config.dataset_name}"


def test_a_tasks_file_is_found_by_its_name(manager: TaskManager, tasks_folder: Path) -> None:
    for name in WORD_TASKS:
        direction, _, words = name.partition("_")
        assert manager.task_index[name].yaml_path == tasks_folder / direction / f"{words}.yaml"


@pytest.mark.parametrize("direction", EXPECTED)
def test_a_group_holds_all_tasks_of_its_direction(manager: TaskManager, direction: str) -> None:
    group = manager.load(f"taskvec_{direction}")["groups"][f"taskvec_{direction}"]
    assert set(group.child_names) == named(direction)


def test_the_group_of_everything_holds_the_three_groups(manager: TaskManager) -> None:
    loaded = manager.load("taskvec")
    assert loaded["group_map"]["taskvec"] == [f"taskvec_{direction}" for direction in EXPECTED]
    assert set(loaded["tasks"]) == set(WORD_TASKS)


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_tag_runs_all_tasks_of_its_category(manager: TaskManager, category: str) -> None:
    names = CATEGORIES[category].split()
    found = set(manager.load(category)["tasks"])
    assert found == {task for task in WORD_TASKS if task.partition("_")[2] in names}


def test_every_task_is_in_exactly_one_category(manager: TaskManager) -> None:
    for name in manager.all_subtasks:
        assert len(manager.task_index[name].tags) == 1, name


def test_every_task_has_a_version_and_leaves_the_number_of_shots_to_the_user(
    tasks: dict[str, Any],
) -> None:
    for name, task in tasks.items():
        assert isinstance(task.VERSION, float), name
        assert task.config.num_fewshot is None, name


def test_every_task_has_50_test_documents_or_more_and_few_more_than_100(
    tasks: dict[str, Any],
) -> None:
    for name, task in tasks.items():
        assert 50 <= len(task.eval_docs) <= 130, name


def test_bijections_report_the_pair_and_the_side_except_where_sides_are_alike(
    tasks: dict[str, Any],
) -> None:
    shared = ["answer_match", "exact_match", "tr_ratio"]
    for name, task in tasks.items():
        expected = shared + ["pair_match", "side_match"] * (task.direction == "bijection")
        if name in ("bijection_antonym", "bijection_copy"):
            expected.remove("side_match")
        assert [entry["metric"] for entry in task.config.metric_list] == expected, name


def test_every_prompt_has_enough_demonstrations_to_draw_from(tasks: dict[str, Any]) -> None:
    """10 for an extraction prompt and 4 more, also where the document is a train pair itself."""
    for name, task in tasks.items():
        if sum(pair.split == "train" for pair in task.pairs) > 50:
            continue
        task.set_fewshot_seed(0)
        for doc in [*task.eval_docs, *task.fewshot_docs()]:
            assert len(task.sampler.order(doc)) >= 14, (name, doc)
