from __future__ import annotations

import pytest

from harness_ext.grids.grid import method_name, model_name, safe_name


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({}, "smollm2-135m"),
        ({"pretrained": "packaged:gemma-3-270m", "dtype": "bfloat16"}, "gemma-3-270m-bfloat16"),
        ({"pretrained": "org/model", "revision": "v2"}, "org__model-revision=v2"),
        ({"pretrained": "./out/model"}, "model"),
        ({"pretrained": "/models/model/"}, "model"),
    ],
)
def test_a_model_is_called_by_its_own_name(arguments: dict[str, str], name: str) -> None:
    assert model_name(arguments) == name


def test_a_method_is_called_by_what_differs_from_the_default() -> None:
    assert method_name({"method": "tr", "head_fraction": 0.1}) == "tr,head_fraction=0.1"
    assert method_name({"method": "none", "ablate": "tl"}) == "ablate_tl"


@pytest.mark.parametrize(
    "hostile",
    ["../../etc", "..", "", "a/b", "a\x00b", "<script>", "x" * 300, "naïve 😀", ".hidden"],
)
def test_a_hostile_name_becomes_one_plain_part_of_a_path(hostile: str) -> None:
    name = safe_name(hostile)
    assert 0 < len(name) <= 80
    assert not set(name) & set('/\\\0<>:"|?* ') and not name.startswith(".")
    assert name.isascii()


def test_different_hostile_names_stay_different() -> None:
    names = ["a/b", "a:b", "a b", "a_b", "x" * 300, "x" * 301]
    assert len({safe_name(name) for name in names}) == len(names)
