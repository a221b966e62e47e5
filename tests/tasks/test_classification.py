"""The tasks over sentences with labels, plain and with perturbed demonstrations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable

LABELS = {
    "sentiment": {"positive", "negative"},
    "subjectivity": {"subjective", "objective"},
    "topic": {"sports", "business", "science", "politics"},
    "question": {"person", "place", "number", "time"},
}
TAGS = {
    "": "taskvec_classification",
    "_shuffled_inputs": "taskvec_shuffled_inputs",
    "_symbol_labels": "taskvec_symbol_labels",
}
SYMBOLS = {2: {"@", "#"}, 4: {"@", "#", "%", "&"}}

each_set = pytest.mark.parametrize("name", LABELS)
each_variant = pytest.mark.parametrize("variant", TAGS)


@pytest.fixture(scope="module")
def tasks(seeded: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return seeded(list(TAGS.values()))


def lines(task: Any, doc: Any, shots: int = 8) -> list[tuple[str, str]]:
    """The text and the label of each line of a prompt; the query's label is empty."""
    parted = [line.partition(" →") for line in task.fewshot_context(doc, shots).split("\n")]
    return [(text.removeprefix("Example: "), label.removeprefix(" ")) for text, _, label in parted]


def test_there_are_three_tasks_for_every_set(manager: TaskManager) -> None:
    found = [name for name in manager.all_subtasks if name.startswith("classify_")]
    assert found == sorted(f"classify_{name}{variant}" for name in LABELS for variant in TAGS)


@each_variant
def test_a_tag_runs_the_tasks_of_one_kind(manager: TaskManager, variant: str) -> None:
    assert set(manager.load(TAGS[variant])["tasks"]) == {
        f"classify_{name}{variant}" for name in LABELS
    }


def test_the_groups_of_word_tasks_hold_none_of_them(manager: TaskManager) -> None:
    assert not any(name.startswith("classify") for name in manager.load("taskvec")["tasks"])


def test_a_tasks_file_is_found_by_its_name(manager: TaskManager, tasks_folder: Path) -> None:
    for name in LABELS:
        for variant in TAGS:
            path = manager.task_index[f"classify_{name}{variant}"].yaml_path
            assert path == tasks_folder / "classification" / f"{name}{variant}.yaml"


def test_every_task_is_shaped_like_a_word_task(tasks: dict[str, Any]) -> None:
    for name, task in tasks.items():
        config = task.config
        assert isinstance(task.VERSION, float) and config.num_fewshot is None, name
        assert [entry["metric"] for entry in config.metric_list] == [
            "answer_match",
            "exact_match",
            "tr_ratio",
        ]
        assert (config.target_delimiter, config.fewshot_delimiter) == (" ", "\n")
        assert config.generation_kwargs["max_gen_toks"] == 8
        doc = task.eval_docs[0]
        assert task.fewshot_context(doc, 0) == f"Example: {doc['query']} →"


@each_set
def test_the_output_space_is_the_labels_or_their_symbols(tasks: dict[str, Any], name: str) -> None:
    labels = LABELS[name]
    assert tasks[f"classify_{name}"].output_space == labels
    assert tasks[f"classify_{name}_shuffled_inputs"].output_space == labels
    assert tasks[f"classify_{name}_symbol_labels"].output_space == SYMBOLS[len(labels)]


@each_set
@each_variant
def test_eight_demonstrations_show_every_label_equally_often(
    tasks: dict[str, Any], name: str, variant: str
) -> None:
    task = tasks[f"classify_{name}{variant}"]
    for doc in list(task.eval_docs)[:20]:
        counts = Counter(label for _, label in lines(task, doc)[:-1])
        assert counts == dict.fromkeys(task.output_space, 8 // len(LABELS[name]))


@each_set
def test_the_last_label_shown_says_nothing_about_the_right_one(
    tasks: dict[str, Any], name: str
) -> None:
    task = tasks[f"classify_{name}"]
    same = [lines(task, doc)[-2][1] == doc["target"] for doc in task.eval_docs]
    assert abs(sum(same) / len(same) - 1 / len(LABELS[name])) < 0.15


@each_set
def test_shuffled_inputs_are_the_same_demonstrations_in_disorder_before_an_intact_query(
    tasks: dict[str, Any], name: str
) -> None:
    plain, shuffled = tasks[f"classify_{name}"], tasks[f"classify_{name}_shuffled_inputs"]
    for one, other in list(zip(plain.eval_docs, shuffled.eval_docs, strict=True))[:20]:
        assert one == other
        *shown, query = lines(plain, one)
        *disordered, same_query = lines(shuffled, other)
        assert same_query == query == (one["query"], "")
        for (text, label), (words, same_label) in zip(shown, disordered, strict=True):
            assert same_label == label
            assert words != text and sorted(words.split()) == sorted(text.split())


@each_set
def test_symbol_labels_replace_every_label_by_one_symbol_and_change_nothing_else(
    tasks: dict[str, Any], name: str
) -> None:
    plain, symbols = tasks[f"classify_{name}"], tasks[f"classify_{name}_symbol_labels"]
    replaced = set()
    for one, other in zip(plain.eval_docs, symbols.eval_docs, strict=True):
        replaced.add((one["target"], other["target"]))
        assert (one["query"], one["pair"]) == (other["query"], other["pair"])
        for (text, label), (same_text, symbol) in zip(
            lines(plain, one)[:-1], lines(symbols, other)[:-1], strict=True
        ):
            assert text == same_text
            replaced.add((label, symbol))
    assert len(replaced) == len(LABELS[name])  # a map, the same in every document
    assert {symbol for _, symbol in replaced} == symbols.output_space


def test_what_steering_reads_is_perturbed_alike(tasks: dict[str, Any]) -> None:
    """A prompt about another query shows the same demonstrations in the same disorder."""
    task = tasks["classify_topic_shuffled_inputs"]
    doc, dummy = task.eval_docs[0], task.fewshot_docs()[5]
    order = task.sampler.order(doc)[:8]
    drawn, task.sampler = task.sampler, _Fixed(order)
    try:
        extraction = lines(task, dummy)
    finally:
        task.sampler = drawn
    assert extraction[:-1] == lines(task, doc)[:-1]
    assert extraction[-1] == (dummy["query"], "")


class _Fixed:
    def __init__(self, shown: list[Any]) -> None:
        self.shown = shown

    def sample(self, n: int, eval_doc: Any = None) -> list[Any]:
        return self.shown[:n]


def test_answers_are_scored_and_the_results_can_be_written(
    manager: TaskManager, rule_lm: Any
) -> None:
    """The labels' first is always answered: right for one label, recognised for all."""
    names = ["classify_topic", "classify_topic_symbol_labels", "classify_topic_shuffled_inputs"]
    answers = {"classify_topic_symbol_labels": " @ and so on"}
    result = simple_evaluate(
        model=rule_lm(lambda request: answers.get(request.task_name, " sports")),
        tasks=names,
        task_manager=manager,
        num_fewshot=8,
        limit=40,
    )
    assert json.dumps(result, default=handle_non_serializable)
    for name in names:
        scores = result["results"][name]
        assert (scores["answer_match,none"], scores["tr_ratio,none"]) == (0.25, 1.0)
        assert scores["exact_match,none"] == (0.0 if name in answers else 0.25)
