"""The steering arguments and their checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict
from typing import Any

import pytest
from lm_eval._cli.utils import key_val_to_dict
from lm_eval.utils import simple_parse_args_string

from harness_ext.config import FIELDS, METHODS, SteeringConfig, parse_model_args
from harness_ext.errors import UsageError
from harness_ext.methods import REGISTRY
from harness_ext.parsing import suggestion

HEADS = ("tr", "tl", "ih", "random")


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
        "head_fraction": 0.03,
        "squared": False,
        "inject_at": "layer",
        "draws": 3,
        "ablate": "none",
        "ablate_at": "all",
        "ablate_with": "zero",
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
        ({"head_fraction": "0.1", "method": "tr"}, 0.1),
        ({"head_fraction": 1, "method": "tr"}, 1.0),
        ({"squared": "true", "method": "tl"}, True),
        ({"squared": False, "method": "tl"}, False),
        ({"draws": "5", "method": "random"}, 5),
        ({"inject_at": "own", "method": "ih"}, "own"),
        ({"ablate": None}, "none"),
        ({"ablate": "tr", "method": None}, "tr"),
        ({"ablate_at": "cue", "ablate": "tr", "method": None}, "cue"),
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
        ({"ablate": "trr", "method": "none"}, "none, tr, tl, ih, random", "tr"),
        ({"inject_at": "owm", "method": "tr"}, "layer, own", "own"),
        ({"ablate_at": "cues"}, "all, cue", "cue"),
        ({"ablate_with": "means"}, "zero, mean", "mean"),
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
    assert parsed(method="none", ablate="tr").steered


@pytest.mark.parametrize("given", [{"method": kind} for kind in HEADS])
def test_heads_have_defaults_of_their_own(given: dict[str, Any]) -> None:
    found = parsed(**given)
    assert (found.mode, found.demos, found.average) == ("add", 8, 50)
    assert parsed(**given, demos=3).demos == 3
    assert parsed(**given, average="7").average == 7
    assert parsed(**given, mode="add", strength=2).strength == 2


@pytest.mark.parametrize("kind", HEADS)
def test_knocked_out_heads_are_scored_as_injected_ones_are(kind: str) -> None:
    found, injected = parsed(method="none", ablate=kind), parsed(method=kind)
    assert (found.demos, found.average) == (injected.demos, injected.average)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "none"])
def test_heads_are_knocked_out_of_an_unsteered_model_alone(method: str) -> None:
    message = message_of(method=method, ablate="tr")
    assert f"it takes method=none, not method={method}. Pass method=none, or drop" in message


def test_the_method_that_heads_cannot_be_knocked_out_under_may_be_the_default() -> None:
    assert "not method=tv, the default. Pass method=none" in message_of(ablate="tl")


@pytest.mark.parametrize("value", [0, -0.1, 1.01, "most", True, None, float("nan")])
def test_a_fraction_outside_its_range_is_refused(value: Any) -> None:
    message = message_of(method="tr", head_fraction=value)
    assert f"head_fraction={value} is not accepted; head_fraction takes a number above 0" in message


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_what_is_neither_true_nor_false_is_refused(value: Any) -> None:
    message = message_of(method="tr", squared=value)
    assert f"squared={value} is not accepted; squared takes True or False." in message


@pytest.mark.parametrize("read", [simple_parse_args_string, key_val_to_dict])
@pytest.mark.parametrize("written", ["-1", "2", "0", "1.5"])
def test_a_fraction_is_named_as_it_was_written(
    written: str, read: Callable[[str], dict[str, Any]]
) -> None:
    message = message_of(method="tr", **read(f"head_fraction={written}"))
    assert f"head_fraction={written} is not accepted" in message


def test_every_head_cannot_be_knocked_out() -> None:
    message = message_of(method="none", ablate="tr", head_fraction=1)
    assert "head_fraction=1 knocks every head out" in message
    assert parsed(method="tr", head_fraction=1).head_fraction == 1


ABLATED = {"method": "none", "ablate": "tr"}


@pytest.mark.parametrize("name", ["demos", "queries", "average"])
def test_induction_heads_are_knocked_out_without_the_tasks_prompts(name: str) -> None:
    """Unless their means over these prompts take the heads' place."""
    given = {"method": "none", "ablate": "ih"}
    assert name not in parsed(**given).said()
    assert f"{name}=3 has no meaning with ablate=ih and ablate_with=zero" in message_of(
        **given, **{name: 3}
    )
    assert parsed(**given, ablate_with="mean", **{name: 3}).said()[name] == 3
    assert name in parsed(**ABLATED).said()


@pytest.mark.parametrize(
    ("given", "named", "beside"),
    [
        ({"head_fraction": 0.1}, "head_fraction=0.1", "method=tv"),
        ({"squared": True, "method": "tv_m"}, "squared=True", "method=tv_m"),
        ({"squared": True, "method": "ih"}, "squared=True", "method=ih"),
        ({"squared": True, "method": "none", "ablate": "ih"}, "squared=True", "ablate=ih"),
        ({"inject_at": "own"}, "inject_at=own", "method=tv"),
        ({"draws": 5}, "draws=5", "method=tv"),
        ({"draws": 5, "method": "tr"}, "draws=5", "method=tr"),
        ({"layer": 3, "method": "tr", "inject_at": "own"}, "layer=3", "inject_at=own"),
        ({"mode": "replace", "method": "tr"}, "mode=replace", "method=tr"),
        ({"ablate_at": "all"}, "ablate_at=all", None),
        ({"ablate_at": "cue", "method": "none"}, "ablate_at=cue", None),
        ({"ablate_with": "mean", "method": "tr"}, "ablate_with=mean", None),
        ({**ABLATED, "layer": 3}, "layer=3", "ablate=tr"),
        ({**ABLATED, "mode": "add"}, "mode=add", "ablate=tr"),
        ({**ABLATED, "strength": 2}, "strength=2.0", "ablate=tr"),
        ({**ABLATED, "dev": 5}, "dev=5", "ablate=tr"),
        ({**ABLATED, "draws": 2, "ablate": "random"}, "draws=2", "ablate=random"),
        ({**ABLATED, "inject_at": "own"}, "inject_at=own", "ablate=tr"),
        ({**ABLATED, "save_vectors": "out"}, "save_vectors=out", "ablate=tr"),
        ({**ABLATED, "vectors": "made"}, "vectors=made", "ablate=tr"),
    ],
)
def test_an_argument_without_a_part_is_refused(
    given: dict[str, Any], named: str, beside: str | None
) -> None:
    message = message_of(**given)
    with_what = f"with {beside}:" if beside else "without ablate."
    assert f"{named} has no meaning {with_what}" in message
    assert "Drop " in message


@pytest.mark.parametrize("given", [{"method": kind} for kind in HEADS] + [ABLATED])
def test_heads_need_episodes_to_be_scored_on(given: dict[str, Any]) -> None:
    assert "average takes a whole number ≥ 1 here" in message_of(**given, average=0)


@pytest.mark.parametrize("name", ["save_vectors", "vectors"])
def test_what_is_not_one_vector_for_one_layer_is_kept_in_no_file(name: str) -> None:
    assert f"{name}=a does not go with method=random" in message_of(method="random", **{name: "a"})
    own = {"method": "tr", "inject_at": "own", name: "a"}
    assert f"{name}=a" in message_of(**own) and "inject_at=own" in message_of(**own)
    assert vars(parsed(method="tr", **{name: "a"}))[name] == "a"


TASK_VECTOR = {"method", "layer", "mode", "demos", "queries", "average", "dev", "cue", "seed"}
FILES = {"save_vectors", "vectors"}
SCORED = {"method", "demos", "queries", "average", "cue", "seed", "head_fraction", "squared"}
INJECTED = {*SCORED, "layer", "mode", "strength", "dev", "inject_at", *FILES}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, TASK_VECTOR | FILES),
        ({"mode": "add"}, TASK_VECTOR | FILES | {"strength"}),
        ({"method": "none"}, {"method"}),
        ({"method": "tr"}, INJECTED),
        ({"method": "tl", "inject_at": "own"}, INJECTED - {"layer"}),
        ({"method": "ih"}, INJECTED - {"squared"}),
        ({"method": "random"}, INJECTED | {"draws"}),
        ({"method": "tr", "vectors": "made"}, {"method", "cue", *FILES}),
        ({"vectors": "made"}, {"method", "cue", *FILES}),
        (ABLATED, SCORED | {"ablate", "ablate_at", "ablate_with"}),
    ],
)
def test_a_run_says_the_arguments_that_had_a_part(given: dict[str, Any], said: set[str]) -> None:
    assert parsed(**given).said().keys() == said


def test_every_method_has_an_implementation() -> None:
    assert set(METHODS) == set(REGISTRY)


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


@pytest.mark.parametrize("given", [{"method": "random"}, {"method": "none", "ablate": "random"}])
def test_random_heads_need_as_many_others(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"head_fraction=0\.6 .* at most 0\.5 here"):
        parse_model_args({**given, "head_fraction": 0.6})
    assert parse_model_args({**given, "head_fraction": 0.5})[0].head_fraction == 0.5
