from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness_ext.errors import UsageError
from harness_ext.grids.grid_file import LISTS, SETTINGS, read_grid

NOTHING: dict[str, Any] = dict.fromkeys((*LISTS, *SETTINGS))
TASK = {"tasks": ["bijection_upper"]}


def test_a_method_may_have_its_own_tasks_shots_and_seeds(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(
        "models: [packaged:smollm2-135m, {pretrained: packaged:smollm2-135m, dtype: bfloat16}]\n"
        "tasks: [forward_upper, 'taskvec_bijection,forward_plural']\n"
        "seeds: [0, 1]\n"
        "limit: 50\n"
        "methods:\n"
        "  - {method: none, shots: [0, 10]}\n"
        "  - tv\n"
        "  - {method: tr, head_fraction: 0.1, tasks: classify_sentiment, seeds: 3}\n"
    )
    grid = read_grid(path, NOTHING)
    assert [model.name for model in grid.models] == ["smollm2-135m", "smollm2-135m-bfloat16"]
    none, tv, tr = grid.methods
    assert (none.name, none.shots, none.seeds) == ("none", (0, 10), (0, 1))
    assert tv.tasks == ("forward_upper", "taskvec_bijection", "forward_plural")
    assert (tr.name, tr.shots, tr.seeds) == ("tr,head_fraction=0.1", (0,), (3,))
    assert tr.tasks == ("classify_sentiment",)
    assert grid.limit == 50


def test_the_command_line_takes_the_place_of_the_files_lists(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({**TASK, "seeds": [1, 2], "methods": ["tv"], "limit": 5}))
    grid = read_grid(path, {**NOTHING, "seeds": [7], "methods": ["tr,head_fraction=0.1", "none"]})
    assert [(m.name, m.seeds) for m in grid.methods] == [
        ("tr,head_fraction=0.1", (7,)),
        ("none", (7,)),
    ]
    assert dict(grid.methods[0].arguments) == {"method": "tr", "head_fraction": 0.1}
    assert grid.limit == 5


def test_a_method_may_stand_twice_under_one_name_for_other_tasks() -> None:
    entries = [{"method": "none", "shots": 10}, {"method": "none", "tasks": "forward_upper"}]
    grid = read_grid(None, {**NOTHING, **TASK, "methods": entries})
    assert [method.name for method in grid.methods] == ["none", "none"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"methods": ["tvv"]}, r"methods\[0\]: method=tvv is not known.*Did you mean tv\?"),
        ({"methods": []}, "methods is empty"),
        ({"methods": [3]}, r"methods\[0\] is 3; a method is a name such as tv"),
        ({"methods": ["tv,"]}, r"methods\[0\] is 'tv,'; as text an entry is METHOD"),
        ({"methods": [{"method": "tv", "head_fraction": 0.1}]}, "has no meaning"),
        ({"methods": [{"method": "tr", "head_fraction": 7}]}, "head_fraction=7"),
        ({"methods": [{"method": "tv", "shot": 1}]}, "shot is not known. Did you mean shots"),
        ({"methods": [{"method": "tv", "seed": 1}]}, "seed=1: a grid's seeds are given as seeds"),
        ({"methods": [{"method": "tv", "average": 3, "save_vectors": "x"}]}, "save_vectors=x"),
        (
            {"methods": [{"method": "tv", "name": "a"}, {"method": "none", "name": "a"}]},
            "two methods are called a",
        ),
        ({"models": [{"pretrained": "a", "layer": 3}]}, r"models\[0\]: layer=3 steers"),
        ({"models": ["a", "a"]}, "a stands twice in models"),
        ({"tasks": []}, "no task is given"),
        ({"tasks": [3]}, "tasks has 3"),
        ({"tasks": ["a", "a"]}, "a stands twice in tasks"),
        ({"shots": [-1]}, "shots has -1; it takes whole numbers"),
        ({"shots": [True]}, "shots has True"),
        ({"seeds": ["x"]}, "seeds has 'x'"),
        ({"seeds": [2**32]}, "seeds has 4294967296; it takes whole numbers from 0 to 4294967295"),
        ({"limit": float("inf")}, "limit is inf"),
        ({"limit": float("nan")}, "limit is nan"),
        ({"limit": -3}, "limit is -3"),
        ({"limit": 1.5}, "limit is 1.5"),
        ({"methods": ["tv", "tv"]}, "tv stands twice in methods"),
        ({"limit": "many"}, "limit is 'many'"),
    ],
)
def test_a_bad_entry_is_named_with_its_value(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_grid(None, {**NOTHING, **TASK, **given})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n- b", "is no grid: it has to be a mapping"),
        ("methods: [", "is not YAML"),
        ("method: tv", "method is not known. Did you mean methods"),
        ("a: !!python/object/apply:os.system [ls]", "is not YAML"),
    ],
)
def test_a_file_that_is_no_grid_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"grid.yaml.* {said}|grid.yaml {said}|{said}"):
        read_grid(path, NOTHING)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing.yaml cannot be read: No such file"):
        read_grid(tmp_path / "nothing.yaml", NOTHING)
