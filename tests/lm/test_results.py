"""What the results say of what was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.huggingface import HFLM

import harness_ext
from harness_ext.config import FIELDS
from harness_ext.lm import TaskVectorLM
from tests.lm.conftest import Results
from tests.models import LAYERS

WORDS = "forward_upper3"


@pytest.fixture(scope="module")
def results(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> Results:
    tasks = [WORDS, stock_task("choose", "multiple_choice")]
    return evaluate(steered(seed=5, queries=2), *tasks, limit=3, num_fewshot=2)


def test_every_argument_with_a_part_stands_in_the_results(results: Results) -> None:
    steering = results["config"]["steering"]
    assert steering["version"] == harness_ext.__version__
    silent = {"strength", "head_fraction", "squared", "inject_at", "draws"}
    silent |= {"ablate", "ablate_at", "ablate_with"}
    assert steering["arguments"].keys() == FIELDS.keys() - silent
    given = {name: steering["arguments"][name] for name in ("method", "seed", "demos", "queries")}
    assert given == {"method": "tv", "seed": 5, "demos": 3, "queries": 2}


def test_model_and_tokenizer_are_identified_by_their_contents(results: Results) -> None:
    model = results["config"]["steering"]["model"]
    assert model["architecture"] == "LlamaForCausalLM"
    assert {len(model["unembedding_sha256"]), len(model["tokenizer_sha256"])} == {64}


def test_every_task_has_its_layer_and_development_accuracy_by_layer(results: Results) -> None:
    records = results["config"]["steering"]["tasks"]
    assert records.keys() == {WORDS, "choose"}
    for record in records.values():
        assert record["chosen_by"] == "development accuracy"
        assert record["layer"] in range(LAYERS)
        assert record["layers"] == list(range(LAYERS))
        assert len(record["development_accuracy_by_layer"]) == LAYERS
        assert record["development_accuracy"] == max(record["development_accuracy_by_layer"])
        assert record["shots"] == 2


def test_a_layer_that_the_user_gave_is_said_to_be_his(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    found = evaluate(steered(layer=2), WORDS, limit=1)
    record = found["config"]["steering"]["tasks"][WORDS]
    assert record == {
        "shots": 0,
        "layer": 2,
        "strength": None,
        "chosen_by": "user",
        "prompts_cut": 0,
    }


def test_one_models_second_evaluation_tells_of_its_own_tasks_alone(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    lm = steered(layer=2)
    first = evaluate(lm, WORDS, limit=1)
    second = evaluate(lm, "forward_echo", limit=1)
    assert first["config"]["steering"]["tasks"].keys() == {WORDS}
    assert second["config"]["steering"]["tasks"].keys() == {"forward_echo"}


def test_lm_eval_writes_it_as_json(
    folder: Path,
    tmp_path: Path,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
) -> None:
    tracker = EvaluationTracker(output_path=str(tmp_path))
    arguments = {"pretrained": str(folder), "demos": 3, "dev": 4, "mode": "add"}
    found = evaluate("taskvec-hf", WORDS, model_args=arguments, limit=2, evaluation_tracker=tracker)
    steering = found["config"]["steering"]
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    [file] = tmp_path.rglob("results_*.json")
    written = json.loads(file.read_text())["config"]["steering"]
    assert written == json.loads(json.dumps(steering, allow_nan=False))
    assert written == steering


def test_samples_keep_lm_evals_own_format(
    folder: Path,
    results: Results,
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    stock = HFLM(pretrained=str(folder), device="cpu")
    tasks = [WORDS, stock_task("choose", "multiple_choice")]
    expected = evaluate(stock, *tasks, limit=3, num_fewshot=2)["samples"]
    for name in (WORDS, "choose"):
        for mine, theirs in zip(results["samples"][name], expected[name], strict=True):
            assert mine.keys() == theirs.keys()
            answer = {"resps", "filtered_resps", *theirs["metrics"]}
            assert {k: v for k, v in mine.items() if k not in answer} == {
                k: v for k, v in theirs.items() if k not in answer
            }
