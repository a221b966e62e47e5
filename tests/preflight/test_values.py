"""Values of lm-eval's own arguments that it reads late, or passes over."""

from pathlib import Path
from typing import Any

import pytest

from harness_ext import preflight
from tests.preflight.conftest import arguments, message_of


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"include_path": "no-such-folder"}, "no-such-folder is not a folder"),
        ({"limit": -1.0}, "--limit -1.0"),
        ({"limit": 0.0}, "--limit 0.0"),
        ({"batch_size": "abc"}, "--batch_size abc"),
        ({"batch_size": "0"}, "--batch_size 0"),
        ({"samples": "no-such.json"}, "--samples no-such.json cannot be read"),
        ({"samples": {"bijection_upper": [0, 100000]}}, "numbered 0 to 59"),
        ({"model_args": "dtype=float33"}, "dtype=float33 is not known"),
        ({"model_args": "vectors=/no/such/folder"}, "/no/such/folder does not exist"),
        ({"model_args": "save_vectors=/dev/null/x"}, "/dev/null/x cannot hold vectors"),
        ({"model_args": "method=tv_ms,demos=3", "num_fewshot": 5}, "only 4 cues"),
        ({"tasks": [{"task": "inline"}]}, "An inline task"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(given: dict[str, Any], expected: str) -> None:
    assert expected in message_of(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"limit": 0.5},
        {"limit": 3.0},
        {"batch_size": "auto"},
        {"batch_size": "auto:4"},
        {"batch_size": 8},
        {"samples": {"bijection_upper": [0, 59]}},
        {"model_args": "dtype=bfloat16"},
    ],
)
def test_values_that_lm_eval_accepts_pass(given: dict[str, Any]) -> None:
    preflight.check(arguments(**given))


def test_a_folder_of_tasks_passes(tmp_path: Path) -> None:
    preflight.check(arguments(include_path=str(tmp_path)))
