"""The steering arguments and their checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict
from typing import Any

import pytest

from harness_ext.config import FIELDS, METHODS, SteeringConfig, parse_model_args, suggestion
from harness_ext.errors import UsageError
from harness_ext.methods import REGISTRY


def parsed(**given: Any) -> SteeringConfig:
    return parse_model_args(given)[0]


def message_of(**given: Any) -> str:
    with pytest.raises(UsageError) as error:
        parse_model_args(given)
    return str(error.value)


def test_nothing_given_is_the_paper_setting() -> None:
    assert asdict(parsed()) == {
        "method": "tv",
        "layer": "auto",
        "mode": "replace",
        "strength": "auto",
        "demos": 10,
        "queries": 1,
        "average": 0,
        "dev": 50,
        "cue": "→",
        "seed": 0,
        "save_vectors": None,
        "vectors": None,
    }


def test_steering_arguments_are_split_from_all_others() -> None:
    config, rest = parse_model_args({"pretrained": "x", "layer": 3, "dtype": "float32"})
    assert config.layer == 3
    assert rest == {"pretrained": "x", "dtype": "float32"}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"layer": "7"}, 7),
        ({"layer": 7}, 7),
        ({"layer": 7.0}, 7),
        ({"layer": "auto"}, "auto"),
        ({"strength": "2.5", "mode": "add"}, 2.5),
        ({"strength": 0, "mode": "add"}, 0.0),
        ({"strength": -1, "mode": "add"}, -1.0),
        ({"demos": "4"}, 4),
        ({"average": 0}, 0),
        ({"seed": "-3"}, -3),
        ({"seed": 2**60 + 1}, 2**60 + 1),
        ({"cue": "Answer:"}, "Answer:"),
        ({"cue": 7}, "7"),
        ({"vectors": "a/b"}, "a/b"),
        ({"vectors": None}, None),
        ({"save_vectors": 7}, "7"),
        ({"save_vectors": "~/a"}, os.path.expanduser("~/a")),
        ({"method": None}, "none"),
        ({"method": "none"}, "none"),
    ],
)
def test_values_may_be_texts_or_parsed_already(given: dict[str, Any], value: Any) -> None:
    found = asdict(parsed(**given))[next(iter(given))]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("name", ["vectors", "save_vectors"])
@pytest.mark.parametrize("value", ["", " ", True])
def test_what_is_no_path_is_refused(name: str, value: Any) -> None:
    assert f"{name}={value!r} is not accepted; {name} takes a path" in message_of(**{name: value})


@pytest.mark.parametrize(
    "given", [{"layer": 3}, {"seed": 1}, {"average": 5}, {"save_vectors": "out"}]
)
def test_vectors_from_a_file_are_not_made_anew(given: dict[str, Any]) -> None:
    message = message_of(vectors="made", method="tv_m", **given)
    [(name, value)] = given.items()
    assert "vectors=made brings what its vectors were made with" in message
    assert f"drop {name}={value}, or drop vectors" in message


@pytest.mark.parametrize("value", ["deep", -1, "1.5", True, None, float("nan"), float("inf"), [1]])
@pytest.mark.parametrize("name", ["layer", "demos", "queries", "average", "dev"])
def test_what_is_no_count_is_refused_with_name_and_value(name: str, value: Any) -> None:
    message = message_of(**{name: value})
    assert f"{name}={value} is not accepted" in message
    assert f"{name} takes " in message


@pytest.mark.parametrize("name", ["demos", "queries", "dev"])
def test_0_is_refused_where_at_least_1_is_needed(name: str) -> None:
    assert f"{name}=0 is not accepted; {name} takes a whole number ≥ 1." in message_of(**{name: 0})


@pytest.mark.parametrize("value", ["strong", True, None, float("nan"), float("inf")])
def test_a_strength_that_is_no_number_is_refused(value: Any) -> None:
    message = message_of(strength=value, mode="add")
    assert f"strength={value} is not accepted; strength takes auto or a number." in message


def test_a_strength_for_a_vector_that_replaces_is_refused() -> None:
    message = message_of(strength=2)
    assert "strength=2.0 has no meaning with mode=replace" in message
    assert "mode=add" in message
    assert parsed(strength="auto").mode == "replace"


@pytest.mark.parametrize(
    ("given", "accepted", "near"),
    [
        ({"method": "tvv"}, "none, tv", "tv"),
        ({"mode": "replce"}, "replace, add", "replace"),
        ({"mode": None}, "replace, add", None),
    ],
)
def test_an_unknown_choice_is_refused_with_the_known_and_the_nearest(
    given: dict[str, Any], accepted: str, near: str | None
) -> None:
    message = message_of(**given)
    assert f"accepted: {accepted}" in message
    assert ("Did you mean" in message) == (near is not None)
    assert near is None or f"Did you mean {near}?" in message


@pytest.mark.parametrize("value", ["", "  ", None])
def test_an_empty_cue_is_refused(value: Any) -> None:
    assert "cue takes the text that ends a demonstration's input" in message_of(cue=value)


def test_a_configuration_cannot_be_changed_and_fits_into_json() -> None:
    config = parsed(layer=3)
    with pytest.raises(FrozenInstanceError):
        config.layer = 4  # type: ignore[misc]
    assert json.loads(json.dumps(asdict(config))) == asdict(config)


def test_only_the_method_none_is_unsteered() -> None:
    assert [method for method in METHODS if not parsed(method=method).steered] == ["none"]


def test_every_method_is_none_or_has_an_implementation() -> None:
    assert set(METHODS) == {"none", *REGISTRY}


def test_every_argument_says_what_it_accepts_and_means() -> None:
    for field in FIELDS.values():
        assert field.metadata["accepted"]
        assert field.metadata["help"].endswith((".", ")"))


def test_near_names_are_suggested_and_far_ones_are_not() -> None:
    assert suggestion("layr", ["layer", "dev"]) == " Did you mean layer?"
    assert suggestion("xyzzy", ["layer", "dev"]) == ""


def test_nothing_heavy_is_imported_to_check_arguments() -> None:
    code = "import harness_ext.config, sys; print({'lm_eval', 'torch'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_arguments_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    parsed(method="none", layer=99)
    assert "these have no effect: layer" in caplog.text


def test_a_number_is_shown_as_it_was_typed() -> None:
    with pytest.raises(UsageError, match=r"average=-1 is not accepted"):
        parsed(average=-1.0)
