"""Vectors written by one run and injected by another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.steering.store import file_name, load
from tests.lm.conftest import Results, answers
from tests.models import save_tiny

WORDS, ECHO = "forward_upper3", "forward_echo"
DOCUMENTS = 6

Run = Callable[..., Results]


@pytest.fixture
def run(steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]) -> Run:
    def run(*tasks: Any, shots: int | None = None, limit: int = DOCUMENTS, **given: Any) -> Results:
        if "vectors" in given:
            lm = TaskVectorLM(**{"pretrained": steered_folder(steered), **given})
        else:
            lm = steered(**given)
        return evaluate(lm, *tasks, limit=limit, num_fewshot=shots)

    return run


def steered_folder(steered: Callable[..., TaskVectorLM]) -> str:
    return str(steered(method="none").pretrained)


@pytest.mark.parametrize("average", [0, 3], ids=["per query", "reusable"])
@pytest.mark.parametrize(("method", "shots"), [("tv", 0), ("tv", 2), ("tv_m", 2), ("tv_ms", 2)])
def test_vectors_from_a_file_give_the_answers_of_the_run_that_made_them(
    method: str, shots: int, average: int, run: Run, tmp_path: Path
) -> None:
    made = run(WORDS, ECHO, shots=shots, method=method, average=average, save_vectors=str(tmp_path))
    found = run(WORDS, ECHO, shots=shots, method=method, vectors=str(tmp_path))
    for task in (WORDS, ECHO):
        assert answers(found, task) == answers(made, task)
        record = found["config"]["steering"]["tasks"][task]
        path = tmp_path / file_name(task)
        assert record.pop("vectors") == str(path)
        made_with = record.pop("made_with")
        assert (made_with["demos"], made_with["average"], made_with["seed"]) == (3, average, 0)
        arguments = found["config"]["steering"]["arguments"]
        assert arguments.keys().isdisjoint(made_with) and arguments["vectors"] == str(tmp_path)
        assert record == made["config"]["steering"]["tasks"][task]
        header = load(path).header
        assert (header.method, header.task, header.shots) == (method, task, shots)
        assert header.layer == record["layer"]
        assert (header.documents is None) is bool(average)
    alone = run(WORDS, shots=shots, method=method, vectors=str(tmp_path / file_name(WORDS)))
    assert answers(alone, WORDS) == answers(made, WORDS)


def test_added_vectors_keep_their_strength(run: Run, tmp_path: Path) -> None:
    made = run(WORDS, mode="add", average=2, save_vectors=str(tmp_path))
    assert load(tmp_path / file_name(WORDS)).header.strength in (0.5, 1.0, 2.0, 4.0)
    assert answers(run(WORDS, vectors=str(tmp_path)), WORDS) == answers(made, WORDS)


def test_choice_tasks_are_scored_with_vectors_from_a_file(
    run: Run, stock_task: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    config = stock_task("choose", "multiple_choice")
    made = run(config, average=2, save_vectors=str(tmp_path))
    found = run(config, vectors=str(tmp_path))
    assert answers(found, "choose") == answers(made, "choose")


def test_a_file_with_vectors_per_document_serves_these_alone(run: Run, tmp_path: Path) -> None:
    run(WORDS, save_vectors=str(tmp_path), limit=3)
    with pytest.raises(UsageError, match="holds vectors for 3 documents, but none for 1 of the 4"):
        run(WORDS, vectors=str(tmp_path), limit=4)


@pytest.mark.parametrize(
    ("given", "shots", "message"),
    [
        ({"method": "tv_m"}, 0, "method is 'tv' in the file, 'tv_m' here"),
        ({}, 2, "num_fewshot is 0 in the file, 2 here"),
        ({"cue": "x →"}, 0, "cue"),
    ],
)
def test_a_file_of_another_run_is_refused(
    given: dict[str, Any], shots: int, message: str, run: Run, tmp_path: Path
) -> None:
    run(WORDS, average=2, save_vectors=str(tmp_path))
    with pytest.raises(UsageError, match=message):
        run(WORDS, shots=shots, vectors=str(tmp_path), **given)


def test_a_file_of_another_task_is_refused(run: Run, tmp_path: Path) -> None:
    run(WORDS, average=2, save_vectors=str(tmp_path))
    path = tmp_path / file_name(WORDS)
    with pytest.raises(UsageError, match=f"task is '{WORDS}' in the file, '{ECHO}' here"):
        run(ECHO, vectors=str(path))
    with pytest.raises(UsageError, match=f"holds no {file_name(ECHO)}, .* there are: {path.name}"):
        run(ECHO, vectors=str(tmp_path))


@pytest.mark.parametrize(
    ("family", "kind", "named"),
    [
        ("gpt2", "split", "architecture is 'LlamaForCausalLM' in the file, 'GPT2LMHeadModel' here"),
        ("llama", "joined", "tokenizer_sha256"),
    ],
)
def test_a_file_of_another_model_or_tokenizer_is_refused(
    family: str,
    kind: str,
    named: str,
    run: Run,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run(WORDS, average=2, save_vectors=str(tmp_path))
    other = save_tiny(tmp_path_factory.mktemp("other"), family, kind)
    with pytest.raises(UsageError, match=named):
        run(WORDS, pretrained=str(other), vectors=str(tmp_path))


def test_a_file_of_a_model_with_other_weights_is_refused(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """The unembedding and the tokenizer may be the same, as after fine-tuning."""
    run(WORDS, average=2, save_vectors=str(tmp_path / "made"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight.mul_(1.001)
    model.save_pretrained(tmp_path / "tuned")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "tuned")
    with pytest.raises(UsageError, match=r"does not fit the model: weights_sha256 is \w+… in"):
        run(WORDS, pretrained=str(tmp_path / "tuned"), vectors=str(tmp_path / "made"))


def test_vectors_per_document_belong_to_their_few_shot_seed(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results], tmp_path: Path
) -> None:
    folder = steered_folder(steered)
    for average, name in ((0, "own"), (2, "reusable")):
        evaluate(steered(average=average, save_vectors=str(tmp_path / name)), WORDS, limit=2)
    reusable = TaskVectorLM(pretrained=folder, vectors=str(tmp_path / "reusable"))
    assert evaluate(reusable, WORDS, limit=2, fewshot_random_seed=7)["samples"][WORDS]
    own = TaskVectorLM(pretrained=folder, vectors=str(tmp_path / "own"))
    with pytest.raises(UsageError, match="prompt is 'Example"):
        evaluate(own, WORDS, limit=2, fewshot_random_seed=7)


def test_a_file_of_more_shots_than_the_default_demonstrations_is_taken(
    run: Run, tmp_path: Path
) -> None:
    made = run(
        ECHO, shots=4, method="tv_ms", demos=4, layer=1, average=2, save_vectors=str(tmp_path)
    )
    found = run(ECHO, shots=4, method="tv_ms", vectors=str(tmp_path))
    assert answers(found, ECHO) == answers(made, ECHO)


def test_a_file_in_another_dtype_is_refused(run: Run, tmp_path: Path) -> None:
    run(WORDS, average=2, save_vectors=str(tmp_path))
    with pytest.raises(UsageError, match="dtype is 'float32' in the file, 'bfloat16' here"):
        run(WORDS, dtype="bfloat16", vectors=str(tmp_path))


def test_a_model_of_another_task_template_is_refused(
    run: Run, stock_task: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    run(stock_task("hold", "loglikelihood"), average=2, save_vectors=str(tmp_path))
    other = stock_task("hold", "loglikelihood", description="Answer. ")
    with pytest.raises(UsageError, match=r"prompt is .Example: .* here"):
        run(other, vectors=str(tmp_path))


@pytest.mark.parametrize("missing", ["nowhere", "."])
def test_a_path_without_vectors_is_refused_before_the_model_is_loaded(
    missing: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"does not exist|holds no vector files"):
        TaskVectorLM(pretrained="/no/such/model", vectors=str(tmp_path / missing))


def test_a_folder_that_cannot_be_written_is_refused_before_the_model_is_loaded(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot hold vectors: .* is a file"):
        TaskVectorLM(pretrained="/no/such/model", save_vectors=str(tmp_path / "file" / "folder"))


def test_a_task_that_fails_leaves_no_file(
    run: Run, stock_task: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(UsageError):
        run(stock_task("hold", "loglikelihood"), demos=40, save_vectors=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_several_processes_write_one_reusable_vector_and_none_per_document(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results], tmp_path: Path
) -> None:
    for rank in (1, 0):
        lm = steered(average=2, layer=1, save_vectors=str(tmp_path))
        bench = lm._method.bench
        object.__setattr__(bench, "rank", rank)
        object.__setattr__(bench, "world_size", 2)
        evaluate(lm, WORDS, limit=1)
        assert len(list(tmp_path.iterdir())) == 1 - rank
    lm = steered(layer=1, save_vectors=str(tmp_path))
    object.__setattr__(lm._method.bench, "world_size", 2)
    with pytest.raises(UsageError, match="spread over 2 processes"):
        evaluate(lm, WORDS, limit=1)


def test_a_file_says_what_made_it(run: Run, tmp_path: Path) -> None:
    found = run(WORDS, average=2, seed=7, save_vectors=str(tmp_path))
    header = load(tmp_path / file_name(WORDS)).header
    assert (header.demos, header.queries, header.average, header.dev) == (3, 1, 2, 4)
    assert (header.seed, header.dtype, header.mode) == (7, "float32", "replace")
    steering = found["config"]["steering"]
    assert header.fingerprint == steering["model"]
    assert json.loads(json.dumps(header.record)).items() <= steering["tasks"][WORDS].items()
