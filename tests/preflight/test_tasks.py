"""What is seen to be wrong with local tasks before the model loads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness_ext import preflight
from harness_ext.steering.store import save
from harness_ext.steering.vector_file import VectorFile
from tests.preflight.conftest import arguments, message_of
from tests.vector_files import header, vectors


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"training_split": None}, "'mine' has no few-shot split"),
        ({"doc_to_text": "Q: {{question}}"}, "the cue '→' does not occur in the prompt 'Q: q0'"),
        ({"doc_to_text": "{{question}} → A:"}, "' A:' stands between the cue"),
        ({"doc_to_text": "Example: {{empty}} →"}, "document 0 of task 'mine' has an empty query"),
        ({"doc_to_text": "empty"}, "document 0 of task 'mine' has an empty query"),
        ({"doc_to_text": "→"}, "document 0 of task 'mine' has an empty query"),
        ({"output_type": "loglikelihood_rolling", "doc_to_text": ""}, "(mine) scores whole texts"),
    ],
    ids=["no split", "no cue", "text behind", "blank", "blank field", "cue alone", "whole texts"],
)
def test_a_users_task_that_cannot_be_steered_is_refused(
    settings: dict[str, Any], said: str, my_task: Callable[..., str]
) -> None:
    file = my_task(**settings)
    assert said in message_of(tasks=[file])
    assert said in message_of(tasks=["mine"], include_path=str(Path(file).parent))
    preflight.check(arguments(tasks=[file], model_args={"method": "none"}))
    preflight.check(arguments(tasks=[file], model="hf"))


@pytest.mark.parametrize("kind", ["tr", "tl", "random"])
@pytest.mark.parametrize("arguments_", ["method={}", "method=none,ablate={}"])
def test_heads_that_are_told_by_labels_take_a_task_with_two(
    arguments_: str, kind: str, my_task: Callable[..., str]
) -> None:
    given = arguments_.format(kind)
    said = message_of(tasks=[my_task(doc_to_target="same")], model_args=given)
    assert "task 'mine': every few-shot document has one and the same label, 'same'" in said
    said = message_of(tasks=[my_task(doc_to_target="empty")], model_args=given)
    assert "task 'mine': no few-shot document has a label" in said
    preflight.check(arguments(tasks=[my_task(doc_to_target="question")], model_args=given))


def test_one_label_is_enough_for_what_is_not_told_by_labels(my_task: Callable[..., str]) -> None:
    file = my_task(doc_to_target="same")
    for given in ("method=ih", "method=tv", "method=none,ablate=ih"):
        preflight.check(arguments(tasks=[file], model_args=given))


def test_knocking_induction_heads_out_takes_no_few_shot_split(my_task: Callable[..., str]) -> None:
    file = my_task(training_split=None)
    preflight.check(arguments(tasks=[file], model_args="method=none,ablate=ih"))
    said = message_of(tasks=[file], model_args="method=none,ablate=ih,ablate_with=mean")
    assert "'mine' has no few-shot split" in said


def test_vectors_of_another_task_or_run_are_refused(
    my_task: Callable[..., str], tmp_path: Path
) -> None:
    file = my_task()
    path = tmp_path / "vectors.safetensors"
    save(path, VectorFile(vectors(), header(task="other", method="tv", shots=2)))
    said = message_of(tasks=[file], model_args=f"vectors={path}")
    assert "task is 'other' in the file, 'mine' here" in said
    assert "num_fewshot is 2 in the file, 0 here" in said
    # What a chat looks like is not known before the model is there.
    preflight.check(
        arguments(tasks=[file], model_args=f"vectors={path}", system_instruction="Answer.")
    )


def test_a_task_of_a_folder_a_tag_or_a_group_is_checked_too(
    my_task: Callable[..., str], tmp_path: Path
) -> None:
    folder = Path(my_task(doc_to_text="Q: {{question}}", tag="my_tag")).parent
    (folder / "group.yaml").write_text("group: my_group\ntask: [mine]\n")
    for name in ("my_tag", "my_group", "mi*"):
        assert "does not occur" in message_of(tasks=[name], include_path=str(folder))
    (folder / "group.yaml").unlink()
    assert "does not occur" in message_of(tasks=[str(folder)])


def test_a_field_left_empty_beside_a_filled_one_is_no_empty_query(
    my_task: Callable[..., str],
) -> None:
    preflight.check(arguments(tasks=[my_task(doc_to_text="{{empty}} {{question}} →")]))


@pytest.mark.parametrize(
    ("model_args", "num_fewshot", "said"),
    [
        ("demos=15", None, "demos=15 with queries=1 needs 16 documents"),
        ("demos=10,queries=9", None, "demos=10 with queries=9 needs 19 documents"),
        ("demos=2", 20, "num_fewshot=20 with queries=1 needs 21 documents"),
        ("demos=14", None, None),
        ("demos=15,layer=0", None, None),
    ],
)
def test_the_few_shot_split_has_to_hold_an_episode(
    model_args: str, num_fewshot: int | None, said: str | None
) -> None:
    given = {"tasks": ["forward_upper"], "model_args": model_args, "num_fewshot": num_fewshot}
    if said is None:
        preflight.check(arguments(**given))
    else:
        message = message_of(**given)
        assert said in message
        assert "'forward_upper' has 15; the most it allows is" in message


def test_only_documents_that_will_be_asked_are_checked(
    my_task: Callable[..., str], tmp_path: Path
) -> None:
    text = "{% if question != 'q3' %}{{question}} →{% else %}Q: {{question}}{% endif %}"
    given: dict[str, Any] = {"tasks": [my_task(doc_to_text=text)]}
    assert "'Q: q3'" in message_of(**given)
    assert "'Q: q3'" in message_of(**given, limit=4.0)
    preflight.check(arguments(**given, limit=3.0))
    preflight.check(arguments(**given, limit=0.2))
    preflight.check(arguments(**given, samples={"mine": [1, 5]}))
    (tmp_path / "samples.json").write_text(json.dumps({"mine": [1, 3]}))
    assert "'Q: q3'" in message_of(**given, samples=str(tmp_path / "samples.json"))


@pytest.mark.parametrize(
    "settings",
    [
        {"dataset_path": "org/on_a_hub"},
        {"dataset_kwargs": {"data_files": "https://example.org/rows.jsonl"}},
        {"dataset_kwargs": {"data_files": {"train": "not_there.jsonl"}}},
        {"dataset_kwargs": None},
    ],
    ids=["hub", "address", "missing file", "no file"],
)
def test_a_task_that_would_have_to_be_fetched_is_left_to_the_run(
    settings: dict[str, Any], my_task: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("data were loaded")

    monkeypatch.setattr("datasets.load_dataset", fetch)
    preflight.check(arguments(tasks=[my_task(doc_to_text="Q: {{question}}", **settings)]))
