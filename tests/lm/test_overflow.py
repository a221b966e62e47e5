"""A model whose states overflow in its dtype is stopped, and told where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.tasks import manager as manager_module
from transformers import AutoModelForCausalLM, PreTrainedModel

from harness_ext import cli
from harness_ext.combining import TASK_VECTORS
from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from tests.lm.conftest import Results
from tests.models import save_tiny

OVERFLOWS_AFTER = 2
WORDS = "forward_upper3"


def overflow(model: PreTrainedModel) -> None:
    """Let layer 2 add numbers that float16 cannot hold, and other dtypes can."""
    layer = model.model.layers[OVERFLOWS_AFTER]
    with torch.no_grad():
        layer.mlp.up_proj.weight *= 300
        layer.mlp.down_proj.weight *= 3000


@pytest.fixture(scope="module")
def overflowing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that overflows in float16 whatever it is asked."""
    folder = save_tiny(tmp_path_factory.mktemp("overflowing"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    overflow(model)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def half(steered: Callable[..., TaskVectorLM]) -> Callable[..., TaskVectorLM]:
    """A model in float16 that overflows only once it is loaded and tried."""

    def make(**arguments: Any) -> TaskVectorLM:
        lm = steered(dtype="float16", **arguments)
        overflow(lm.model)
        return lm

    return make


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_dtype_that_holds_the_states_runs(
    dtype: str,
    overflowing: Path,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
) -> None:
    lm = steered(pretrained=str(overflowing), dtype=dtype)
    assert evaluate(lm, WORDS, limit=1)["samples"][WORDS]


@pytest.mark.parametrize("method", TASK_VECTORS)
@pytest.mark.parametrize(
    "arguments",
    [{}, {"layer": 2}, {"layer": 3}, {"average": 2}, {"mode": "add"}],
    ids=["layer=auto", "layer=2", "layer=3", "average", "mode=add"],
)
def test_an_overflow_in_the_extraction_says_after_which_layer(
    arguments: dict[str, Any],
    method: str,
    half: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
) -> None:
    with pytest.raises(UsageError, match=r"state after layer \d .*'forward_upper3'") as error:
        evaluate(half(method=method, **arguments), WORDS, limit=1, num_fewshot=1)
    message = str(error.value)
    assert f"after layer {OVERFLOWS_AFTER} holds NaN or infinity" in message
    assert "dtype=float32 or bfloat16" in message
    assert "\n" not in message


@pytest.mark.parametrize("output_type", ["generate_until", "multiple_choice"])
def test_an_overflow_behind_the_steered_layer_is_not_taken_for_an_answer(
    output_type: str,
    half: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    """The vector is read before the layer that overflows; tested prompts run through that too."""
    with pytest.raises(UsageError, match=r"holds NaN or infinity .*dtype=float32 or bfloat16"):
        evaluate(half(layer=1), stock_task("over", output_type), limit=1)


def test_a_model_that_always_overflows_is_stopped_as_it_loads(
    overflowing: Path, steered: Callable[..., TaskVectorLM]
) -> None:
    with pytest.raises(UsageError, match="state after layer 2 holds NaN or infinity") as error:
        steered(pretrained=str(overflowing), dtype="float16")
    assert "float32 or bfloat16" in str(error.value)


def test_the_command_says_it_in_one_line(
    overflowing: Path,
    tasks_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # lm-eval's own tasks take seconds to index.
    monkeypatch.setattr(manager_module, "__file__", str(tmp_path / "manager.py"))
    model_args = f"pretrained={overflowing},dtype=float16,demos=3,dev=4"
    typed = ["run", "--tasks", str(tasks_folder / "upper3.yaml"), "--limit", "1"]
    assert cli.main([*typed, "--model_args", model_args]) == 2
    said = capsys.readouterr().err.splitlines()
    [line] = [line for line in said if line.startswith("taskvec: error: ")]
    assert "the state after layer 2 holds NaN or infinity" in line
    assert said[-1] == line
