"""Which names `--model_args` may hold."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM
from transformers import LlamaConfig

from harness_ext.arguments import LOADING, check_unknown, known_names
from harness_ext.config import FIELDS
from harness_ext.errors import UsageError


def message_of(given: dict[str, Any], config: Any = None) -> str:
    with pytest.raises(UsageError) as error:
        check_unknown(given, config)
    return str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        *("layer", "cue"),
        *("pretrained", "dtype", "parallelize", "peft", "logits_cache", "trust_remote_code"),
        *("attn_implementation", "device_map", "load_in_4bit"),
        *("bnb_4bit_compute_dtype", "llm_int8_threshold"),
    ],
)
def test_names_of_ours_of_hf_and_of_loading_are_accepted(name: str) -> None:
    check_unknown({name: "anything"})


def test_every_argument_of_lm_evals_hf_is_known() -> None:
    parameters = inspect.signature(HFLM.__init__).parameters
    named = {n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD} - {"self"}
    assert named <= set(known_names())
    assert set(FIELDS) | set(LOADING) <= set(known_names())
    assert not {"self", "kwargs"} & set(known_names())


def test_an_unknown_name_is_refused_with_its_value_and_the_nearest_name() -> None:
    message = message_of({"dtype": "float32", "layr": 3})
    assert "unknown argument layr=3" in message
    assert "Did you mean layer?" in message
    assert "all arguments of lm-eval's hf" in message


def test_a_setting_of_the_models_configuration_is_accepted_once_that_is_known() -> None:
    given = {"rms_norm_eps": 1e-5}
    assert "rms_norm_eps" in message_of(given)
    check_unknown(given, LlamaConfig())
    assert "n_embdd" in message_of({**given, "n_embdd": 1}, LlamaConfig())
