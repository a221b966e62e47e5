"""`method=none` is lm-eval's own `hf`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM

from harness_ext.lm import TaskVectorLM
from tests.lm.conftest import Results

ROLLING = {"doc_to_text": "", "metric_list": None}


@pytest.mark.parametrize("shots", [0, 10])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_samples_are_those_of_stock_hf(
    shots: int,
    batch_size: int,
    folder: Path,
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    tasks = [
        "forward_upper3",
        stock_task("choose", "multiple_choice"),
        stock_task("hold", "loglikelihood"),
    ]
    options = {"limit": 7, "num_fewshot": shots}
    stock = HFLM(pretrained=str(folder), device="cpu", batch_size=batch_size)
    ours = TaskVectorLM(pretrained=str(folder), method="none", batch_size=batch_size)
    expected, found = evaluate(stock, *tasks, **options), evaluate(ours, *tasks, **options)
    assert found["samples"] == expected["samples"]
    assert found["results"] == expected["results"]


def test_rolling_perplexities_are_those_of_stock_hf(
    folder: Path,
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    task = stock_task("roll", "loglikelihood_rolling", **ROLLING)
    stock = HFLM(pretrained=str(folder), device="cpu")
    ours = TaskVectorLM(pretrained=str(folder), method="none")
    assert evaluate(ours, task)["samples"] == evaluate(stock, task)["samples"]


@pytest.mark.parametrize("model_args", ["method=none", {"method": None}])
def test_the_word_none_and_pythons_none_both_mean_unsteered(
    model_args: str | dict[str, Any], folder: Path, evaluate: Callable[..., Results]
) -> None:
    if isinstance(model_args, str):
        arguments: Any = f"pretrained={folder},{model_args}"
    else:
        arguments = {"pretrained": str(folder), **model_args}
    found = evaluate("taskvec-hf", "forward_upper3", model_args=arguments, limit=2)
    expected = evaluate(
        "hf", "forward_upper3", model_args=f"pretrained={folder}", limit=2, device="cpu"
    )
    assert found["samples"] == expected["samples"]
    assert found["config"]["steering"]["arguments"]["method"] == "none"
    assert found["config"]["steering"]["tasks"] == {}
