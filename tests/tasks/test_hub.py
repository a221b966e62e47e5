"""The tasks over data sets of the hub, on local files with the columns these have.

The YAML files are read as they are; only where the data comes from is replaced.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import pytest
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from harness_ext import local_tasks
from harness_ext.errors import UsageError

HUB = Path(__file__).parents[2] / "tasks" / "classification" / "hub"
Rows = list[dict[str, Any]]


class Source(NamedTuple):
    """What a data set of the hub looks like."""

    path: str
    name: str | None
    splits: tuple[str, ...]
    columns: dict[str, Any]
    label: str
    example: tuple[dict[str, Any], str, str]


def classes(*names: str) -> datasets.ClassLabel:
    return datasets.ClassLabel(names=list(names))


TEXT, INDEX = datasets.Value("string"), datasets.Value("int32")
NLI = ("entailment", "neutral", "contradiction")
TREC = {"coarse_label": classes("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM"), "fine_label": INDEX}
SOURCES = {
    "sst2": Source(
        "stanfordnlp/sst2",
        None,
        ("train", "validation", "test"),
        {"idx": INDEX, "sentence": TEXT, "label": classes("negative", "positive")},
        "label",
        ({"sentence": "a fine film ", "label": 1}, "a fine film", "positive"),
    ),
    "subj": Source(
        "SetFit/subj",
        None,
        ("train", "test"),
        {"text": TEXT, "label": datasets.Value("int64"), "label_text": TEXT},
        "label",
        ({"text": "a spy is sent home .", "label": 0}, "a spy is sent home .", "objective"),
    ),
    "trec": Source(
        "CogComp/trec",
        None,
        ("train", "test"),
        {"text": TEXT, **TREC},
        "coarse_label",
        ({"text": "Who is he ?", "coarse_label": 3}, "Who is he ?", "person"),
    ),
    "mr": Source(
        "cornell-movie-review-data/rotten_tomatoes",
        None,
        ("train", "validation", "test"),
        {"text": TEXT, "label": classes("neg", "pos")},
        "label",
        ({"text": "too long .", "label": 0}, "too long .", "negative"),
    ),
    "snli": Source(
        "stanfordnlp/snli",
        None,
        ("train", "validation", "test"),
        {"premise": TEXT, "hypothesis": TEXT, "label": classes(*NLI)},
        "label",
        (
            {"premise": "A man sleeps.", "hypothesis": "He runs.", "label": 2},
            "A man sleeps. Claim: He runs.",
            "false",
        ),
    ),
    "rte": Source(
        "nyu-mll/glue",
        "rte",
        ("train", "validation", "test"),
        {
            "sentence1": TEXT,
            "sentence2": TEXT,
            "label": classes("entailment", "not_entailment"),
            "idx": INDEX,
        },
        "label",
        (
            {"sentence1": "It rained.", "sentence2": "It was dry.", "label": 1},
            "It rained. Claim: It was dry.",
            "false",
        ),
    ),
    "cb": Source(
        "aps/super_glue",
        "cb",
        ("train", "validation", "test"),
        {
            "premise": TEXT,
            "hypothesis": TEXT,
            "idx": INDEX,
            "label": classes("entailment", "contradiction", "neutral"),
        },
        "label",
        (
            {"premise": "A: Is he in?\nB: Maybe.", "hypothesis": "He is in.", "label": 2},
            "A: Is he in? B: Maybe. Claim: He is in.",
            "neither",
        ),
    ),
}
each_source = pytest.mark.parametrize("name", SOURCES)


def stand_in(source: Source, split: str, size: int = 12) -> Rows:
    """Rows of a split, labels in turn, the last without; tested ones begin with the example."""
    kind = source.columns[source.label]
    classes_ = kind.num_classes if isinstance(kind, datasets.ClassLabel) else 2
    rows = [
        {
            **{column: f"{split} {column} {n}." for column in source.columns},
            **{column: n for column, type_ in source.columns.items() if type_ == INDEX},
            source.label: n % classes_ if n < size - 1 else -1,
        }
        for n in range(size)
    ]
    return rows if split == "train" else [{**rows[0], **source.example[0]}, *rows[1:]]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The task of a YAML file, `load_dataset` giving small tables in the place of the hub's."""

    def make(name: str, replace: dict[str, Rows] | None = None, **changes: Any) -> Any:
        source = SOURCES[name]

        def load_dataset(path: str, subset: str | None, *, split: list[str], **options: Any) -> Any:
            assert (path, subset) == (source.path, source.name)
            assert options == ({"revision": "refs/convert/parquet"} if name == "trec" else {})
            assert set(split) <= set(source.splits)
            features = datasets.Features(source.columns)
            tables = replace or {part: stand_in(source, part) for part in split}
            return [datasets.Dataset.from_list(tables[part], features=features) for part in split]

        monkeypatch.setattr("datasets.load_dataset", load_dataset)
        config = {**load_yaml(HUB / f"{name}.yaml"), **changes}
        (task,) = TaskManager(include_defaults=False).load([config])["tasks"].values()
        task.set_fewshot_seed(1234)
        return task

    return make


def test_the_seven_sets_of_the_paper_have_a_task(manager: TaskManager) -> None:
    found = [name for name in manager.all_subtasks if name.startswith("hub_")]
    assert found == sorted(f"hub_{name}" for name in SOURCES)
    assert set(manager.task_index["taskvec_hub"].tags) == set(found)
    for name in SOURCES:
        assert manager.task_index[f"hub_{name}"].yaml_path == HUB / f"{name}.yaml"


@each_source
def test_rows_become_prompts_and_answers(load: Any, name: str) -> None:
    task = load(name)
    _, text, label = SOURCES[name].example
    doc = task.eval_docs[0]
    assert (doc["query"], doc["target"], doc["answers"]) == (text, label, [label])
    assert task.fewshot_context(doc, 0) == f"Example: {text} →"
    shown = task.fewshot_context(doc, 4).split("\n")
    assert len(shown) == 5 and all(line.startswith("Example: train ") for line in shown[:-1])


@each_source
def test_every_label_has_a_word_and_rows_without_label_are_left_out(load: Any, name: str) -> None:
    task = load(name)
    kind = SOURCES[name].columns[SOURCES[name].label]
    count = kind.num_classes if isinstance(kind, datasets.ClassLabel) else 2
    assert len(task.output_space) == count
    assert len({doc["query"] for doc in task.eval_docs}) == 11
    assert len(task.fewshot_docs()) == 11
    shown = [doc["target"] for doc in task.sampler.order(task.eval_docs[1])[:count]]
    assert set(shown) == task.output_space


@each_source
def test_labels_are_the_words_for_the_hubs_own_names(name: str) -> None:
    """Where the data set names its labels, the YAML's order of words follows those names."""
    words = load_yaml(HUB / f"{name}.yaml")["dataset_kwargs"]["labels"]
    kind = SOURCES[name].columns[SOURCES[name].label]
    meanings = {
        "neg": "negative",
        "pos": "positive",
        "entailment": "true",
        "not_entailment": "false",
        "contradiction": "false",
        "neutral": "neither",
        **dict(ABBR="abbreviation", ENTY="entity", DESC="description"),
        **dict(HUM="person", LOC="location", NUM="number"),
    }
    if isinstance(kind, datasets.ClassLabel):
        expected = {n: meanings.get(label, label) for n, label in enumerate(kind.names)}
        assert words == expected


def test_a_text_that_stands_twice_counts_once(load: Any) -> None:
    rows = {
        "train": [{"text": "same", "label": n} for n in (0, 1, 1)],
        "test": [{"text": f"other {n}", "label": n} for n in (0, 1)],
    }
    task = load("mr", rows)
    assert [(doc["query"], doc["target"]) for doc in task.fewshot_docs()] in (
        [("same", "negative")],
        [("same", "positive")],
    )


def test_demonstrations_come_from_a_pool_of_fixed_size(load: Any) -> None:
    rows = {
        "train": [{"text": f"text {n}", "label": n % 2} for n in range(2500)],
        "test": [{"text": "other", "label": 0}],
    }
    pools = [{doc["query"] for doc in load("mr", rows).fewshot_docs()} for _ in range(2)]
    assert len(pools[0]) == 2000 and pools[0] == pools[1]
    assert pools[0] != {row["text"] for row in rows["train"][:2000]}


def test_a_text_of_both_splits_is_a_test_document_alone(load: Any) -> None:
    rows = {
        "train": [{"text": "both", "label": 1}, {"text": "train", "label": 1}],
        "test": [{"text": "both", "label": 0}],
    }
    task = load("mr", rows)
    assert [doc["query"] for doc in task.fewshot_docs()] == ["train"]
    assert {(doc["query"], doc["target"]) for doc in task.eval_docs} == {("both", "negative")}


def test_a_column_that_is_missing_is_named_beside_those_there_are(load: Any) -> None:
    kwargs = load_yaml(HUB / "mr.yaml")["dataset_kwargs"]
    for change in ({"text": "{{sentence}}"}, {"label": "class"}):
        with pytest.raises(UsageError, match=r"hub_mr: cornell.* columns text, label, which"):
            load("mr", dataset_kwargs={**kwargs, **change})


@pytest.mark.parametrize("missing", ["text", "label", "labels", "splits"])
def test_a_yaml_that_leaves_something_out_is_refused(load: Any, missing: str) -> None:
    kwargs = load_yaml(HUB / "mr.yaml")["dataset_kwargs"]
    kwargs.pop(missing)
    with pytest.raises(UsageError, match=rf"hub_mr: dataset_kwargs lacks '{missing}'"):
        load("mr", dataset_kwargs=kwargs)


def test_local_files_may_stand_in_for_the_hub(tmp_path: Path) -> None:
    """A user without hub access who has the files: the same YAML with another source."""
    for split in ("train", "validation"):
        rows = stand_in(SOURCES["cb"], split)
        (tmp_path / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    config = load_yaml(HUB / "cb.yaml")
    config["dataset_path"], config["dataset_name"] = "json", None
    files = {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "validation")}
    config["dataset_kwargs"] = {
        **config["dataset_kwargs"],
        "data_files": files,
        "cache_dir": str(tmp_path / "cache"),
    }
    (task,) = TaskManager(include_defaults=False).load([config])["tasks"].values()
    assert task.eval_docs[0]["query"] == "A: Is he in? B: Maybe. Claim: He is in."
    assert task.output_space == {"true", "false", "neither"}


def test_without_network_the_error_names_the_data_set_and_the_tasks_that_need_none(
    manager: TaskManager,
) -> None:
    with pytest.raises(UsageError, match=r"hub_cb: .*aps/super_glue.*classify_sentiment"):
        manager.load("hub_cb")


def test_a_check_before_the_model_is_loaded_leaves_them_out() -> None:
    """It loads local tasks alone: own sentences are, data sets of the hub are not."""
    found = local_tasks.load(local_tasks.index(None), ["hub_*", "taskvec_hub", "classify_topic"])
    assert [task.task_name for task in found] == ["classify_topic"]


def test_listing_all_tasks_loads_no_data(tasks_folder: Path) -> None:
    code = (
        "import socket, datasets\n"
        "from lm_eval.tasks import TaskManager\n"
        "def refuse(*args, **kwargs): raise AssertionError(args)\n"
        "socket.socket.connect = datasets.load_dataset = refuse\n"
        f"manager = TaskManager(include_path={str(tasks_folder)!r}, include_defaults=False)\n"
        "print(manager.list_all_tasks(list_groups=False, list_tags=False))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert all(f"hub_{name}" in shown for name in SOURCES)
