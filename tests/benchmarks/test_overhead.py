"""`taskvec-hf` beside stock `hf` on the same requests."""

from __future__ import annotations

import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from harness_ext.lm import TaskVectorLM

from .conftest import ratio

BATCH_SIZE = 8


@pytest.fixture(scope="module")
def models(anatomy, tokenizer) -> tuple[TaskVectorLM, HFLM]:
    """Both over the same weights: where these lie in memory makes up to a tenth of the time."""
    shared = {"pretrained": anatomy.model, "tokenizer": tokenizer, "batch_size": BATCH_SIZE}
    return TaskVectorLM(**shared, method="none"), HFLM(**shared)


def requests(task, shots: int, n: int) -> list[Instance]:
    return [
        Instance(
            request_type="generate_until",
            doc=doc,
            arguments=(
                task.fewshot_context(doc, num_fewshot=shots),
                dict(task.config.generation_kwargs),
            ),
            idx=0,
            metadata=("forward_upper", number, 1),
        )
        for number, doc in enumerate(list(task.test_docs())[:n])
    ]


@pytest.mark.parametrize("shots", [0, 10])
def test_unsteered_answers_cost_what_stock_hf_costs_and_are_the_same(
    models, task, benchmark, shots: int
) -> None:
    ours, stock = models
    asked = requests(task, shots, 16)
    assert ours.generate_until(asked, disable_tqdm=True) == stock.generate_until(
        asked, disable_tqdm=True
    )

    def with_ours() -> None:
        ours.generate_until(asked, disable_tqdm=True)

    def with_stock() -> None:
        stock.generate_until(asked, disable_tqdm=True)

    measured = ratio(with_ours, with_stock, bound=1.05, rounds=20)
    benchmark.extra_info[f"method=none / stock hf, {shots}-shot"] = round(measured, 3)
    benchmark.pedantic(with_ours, rounds=1)
    assert measured <= 1.05
