"""A mistake in a run gets one clear message, before anything long is computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.methods.task_vector import TaskVector
from tests.lm.conftest import Results
from tests.models import tiny_model, tiny_tokenizer

WORDS = "forward_upper3"


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(TaskVectorLM, "_create_model", load)


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"method": "tvv"}, ["method=tvv", "none, tv", "Did you mean tv"]),
        ({"layr": 3}, ["layr=3", "Did you mean layer"]),
        ({"layer": 4}, ["layer=4", "4 layers, 0 to 3", "layer=auto"]),
        ({"layer": "deep"}, ["layer=deep", "auto or a layer index"]),
        ({"demos": 0}, ["demos=0", "≥ 1"]),
        ({"pretrained": "./no/such/folder"}, ["pretrained=./no/such/folder", "packaged:NAME"]),
        ({"pretrained": "packaged:gpt-9"}, ["gpt-9", "smollm2-135m"]),
    ],
)
def test_a_wrong_argument_is_refused_before_weights_are_loaded(
    arguments: dict[str, Any], said: list[str], folder: Path
) -> None:
    with pytest.raises(UsageError) as error:
        TaskVectorLM(**{"pretrained": str(folder), **arguments})
    assert all(words in str(error.value) for words in said)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("arguments", [{"layr": 3}, {"layer": 4}])
def test_a_model_object_is_checked_like_a_folder(arguments: dict[str, Any]) -> None:
    tokenizer = tiny_tokenizer("split")
    model = tiny_model("llama", len(tokenizer))
    with pytest.raises(UsageError, match=next(iter(arguments))):
        TaskVectorLM(pretrained=model, tokenizer=tokenizer, **arguments)


def test_a_setting_of_the_models_own_configuration_is_accepted(folder: Path) -> None:
    lm = TaskVectorLM(pretrained=str(folder), rms_norm_eps=0.5, method="none")
    assert lm.model.config.rms_norm_eps == 0.5


BLANK = {"process_docs": lambda data: data.map(lambda row: {**row, "question": " "})}


@pytest.mark.parametrize(
    ("output_type", "settings", "said"),
    [
        (
            "generate_until",
            {"fewshot_split": None, "training_split": None},
            ["'wrong' has no few-shot split"],
        ),
        ("generate_until", {"doc_to_text": "Q: {{question}}"}, ["'→' does not occur", "cue=…"]),
        ("multiple_choice", {"doc_to_text": "Q: {{question}}"}, ["'→' does not occur", "cue=…"]),
        (
            "generate_until",
            {"doc_to_text": "{{question}} → Answer:"},
            ["' Answer:' stands between the cue '→' and the answer"],
        ),
        ("generate_until", BLANK, ["document 0", "'wrong'", "empty query"]),
        ("multiple_choice", BLANK, ["document 0", "'wrong'", "empty query"]),
        ("loglikelihood_rolling", {"doc_to_text": ""}, ["wrong", "method=none"]),
        (
            "multiple_choice",
            {"doc_to_text": "number", "doc_to_target": "Yes."},
            ["'wrong' puts its choices into the prompt"],
        ),
    ],
    ids=[
        "no few-shot split",
        "no cue",
        "no cue before choices",
        "text behind the cue",
        "empty query",
        "empty query before choices",
        "whole texts",
        "choices in the prompt",
    ],
)
def test_a_task_that_cannot_be_steered_is_refused_before_any_task_is_prepared(
    output_type: str,
    settings: dict[str, Any],
    said: list[str],
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[Any] = []
    monkeypatch.setattr(TaskVector, "plan", lambda *args: prepared.append(args))
    beside = [stock_task("fine", output_type)] if output_type != "loglikelihood_rolling" else []
    with pytest.raises(UsageError) as error:
        evaluate(steered(), *beside, stock_task("wrong", output_type, **settings))
    assert all(words in str(error.value) for words in said)
    assert not prepared


@pytest.mark.parametrize(
    ("arguments", "shots", "said"),
    [
        # Ten of the eleven train pairs stand beside a development query.
        ({"demos": 10}, 0, ["demos=10", "needs 11", "has 10", "the most it allows is 9"]),
        ({"demos": 8, "queries": 3}, 0, ["demos=8 with queries=3", "needs 11", "allows is 7"]),
        ({"demos": 2}, 10, ["num_fewshot=10", "needs 11", "the most it allows is 9"]),
    ],
)
def test_more_demonstrations_than_there_are_is_a_mistake(
    arguments: dict[str, Any],
    shots: int,
    said: list[str],
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
) -> None:
    with pytest.raises(UsageError) as error:
        evaluate(steered(**arguments), WORDS, limit=1, num_fewshot=shots)
    assert all(words in str(error.value) for words in said)


def test_a_given_layer_lets_a_tested_query_use_every_few_shot_document(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    found = evaluate(steered(demos=10, layer=1), WORDS, limit=1)
    assert found["samples"][WORDS]


def test_the_response_cache_is_refused_for_steered_methods_alone(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results], tmp_path: Path
) -> None:
    cache = str(tmp_path / "cache")
    with pytest.raises(UsageError, match=r"--use_cache .* method=tv: .* prompt's text alone"):
        evaluate(steered(), WORDS, limit=1, use_cache=cache)
    first = evaluate(steered(method="none"), WORDS, limit=2, use_cache=cache)
    again = evaluate(steered(method="none"), WORDS, limit=2, use_cache=cache)
    assert again["samples"] == first["samples"]


def test_a_prompt_without_its_task_is_a_mistake(steered: Callable[..., TaskVectorLM]) -> None:
    request = Instance(
        request_type="generate_until",
        doc={},
        arguments=("Example: a →", {"until": ["\n"]}),
        idx=0,
        metadata=("a task nobody built", 0, 1),
    )
    with pytest.raises(UsageError, match="'a task nobody built' came without the task"):
        steered().generate_until([request])


def test_a_tokenizer_that_would_cut_the_cue_off_is_a_mistake(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    lm = steered(truncation=True, layer=1)
    assert evaluate(lm, WORDS, limit=1)["samples"]
    lm.tokenizer.model_max_length = 10
    with pytest.raises(UsageError, match=r"truncation=True .* prompt of \d+ tokens to 10"):
        evaluate(lm, WORDS, limit=1)


def test_an_extraction_prompt_longer_than_the_model_takes_is_a_mistake(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    with pytest.raises(UsageError, match=r"demos=3 has \d+ tokens, .* max_length=40"):
        evaluate(steered(max_length=40), WORDS, limit=1)


@pytest.mark.parametrize(
    ("output_type", "settings", "message"),
    [
        (
            "generate_until",
            {"generation_kwargs": {"until": ["\n"], "max_gen_toks": 80}},
            r"max_gen_toks=80 leaves no room for a prompt in max_length=80",
        ),
        (
            "loglikelihood",
            {"doc_to_target": "{{answer}}" + "!" * 90},
            r"the cue of the prompt .* is cut off: .* max_length",
        ),
    ],
)
def test_a_prompt_whose_cue_is_cut_off_is_a_mistake(
    output_type: str,
    settings: dict[str, Any],
    message: str,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    lm = steered(max_length=80, demos=2)
    with pytest.raises(UsageError, match=message):
        evaluate(lm, stock_task("long", output_type, **settings), limit=1)
