"""Scores of continuations under steering, against a slow implementation of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from harness_ext.lm import TaskVectorLM
from harness_ext.steering.task_context import TaskContext
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle
from tests.models import save_tiny

LAYER = 1
DOCUMENTS = 5
LETTERS = {  # choices of one token each, right behind the arrow
    "target_delimiter": "",
    "doc_to_choice": ["a", "b", "c"],
}


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


def expected_scores(config: dict[str, Any], oracle: Oracle) -> list[list[tuple[float, bool]]]:
    """For each document the score of each choice, or of the one answer."""
    task = TaskManager(include_defaults=False).load([config])["tasks"][config["task"]]
    context = TaskContext(task, {})
    choices, delimiter = config["doc_to_choice"], config["target_delimiter"]
    found = []
    for number in range(DOCUMENTS):
        document = task.test_docs()[number]
        *shown, dummy = context.order(document, 0, 0)[:4]
        text = "".join(
            f"Example: {d['question']} →{delimiter}"
            f"{choices[d['number']] if choices else d['answer']}\n"
            for d in shown
        )
        vector = oracle.state(f"{text}Example: {dummy['question']} →", LAYER)
        prompt = f"Example: {document['question']} →"
        # lm-eval puts no delimiter before the one continuation of a loglikelihood task.
        continuations = [delimiter + c for c in choices] if choices else [document["answer"]]
        found.append([oracle.score(prompt, c, LAYER, vector) for c in continuations])
    return found


@pytest.mark.parametrize("logits_cache", [True, False])
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize(
    ("output_type", "settings"),
    [("multiple_choice", {}), ("multiple_choice", LETTERS), ("loglikelihood", {})],
    ids=["choices of several tokens", "choices of one token", "one continuation"],
)
def test_scores_are_those_of_the_steered_prompt(
    logits_cache: bool,
    batch_size: int,
    output_type: str,
    settings: dict[str, Any],
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    config = stock_task("scored", output_type, **settings)
    lm = steered(layer=LAYER, logits_cache=logits_cache, batch_size=batch_size)
    found = answers(evaluate(lm, config, limit=DOCUMENTS), "scored")
    for per_choice, expected in zip(found, expected_scores(config, oracle), strict=True):
        for [(score, greedy)], (right_score, right_greedy) in zip(
            per_choice, expected, strict=True
        ):
            assert score == pytest.approx(right_score, abs=1e-3)
            assert greedy == right_greedy


def test_the_chosen_answer_is_the_likeliest_choice(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    oracle: Oracle,
) -> None:
    config = stock_task("choose", "multiple_choice")
    samples = evaluate(steered(layer=LAYER), config, limit=DOCUMENTS)["samples"]["choose"]
    for sample, scores in zip(samples, expected_scores(config, oracle), strict=True):
        best = max(range(3), key=lambda choice: scores[choice][0])
        assert sample["acc"] == float(best == sample["doc"]["number"])


@pytest.mark.parametrize("kind", ["joined", "after", "before", "words", "spm"])
def test_any_tokenization_of_the_arrow_is_steered_where_lm_eval_scores_it(
    kind: str,
    tmp_path: Path,
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    model = save_tiny(tmp_path, "llama", kind)
    config = stock_task("choose", "multiple_choice", doc_to_choice=["yes", "no", "good day"])
    arguments = {"pretrained": str(model), "demos": 3, "dev": 4}
    steered = evaluate(TaskVectorLM(**arguments, layer=2), config, limit=DOCUMENTS)
    silent = evaluate(
        TaskVectorLM(**arguments, layer=2, mode="add", strength=0), config, limit=DOCUMENTS
    )
    plain = evaluate(TaskVectorLM(**arguments, method="none"), config, limit=DOCUMENTS)
    assert silent["samples"] == plain["samples"]
    assert answers(steered, "choose") != answers(plain, "choose")
