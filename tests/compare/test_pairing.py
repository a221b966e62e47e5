from __future__ import annotations

import pytest

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.pairing import pair
from harness_ext.errors import UsageError
from tests.compare.made_up import evaluation


def names(*sides: list[object]) -> list[str]:
    return [each.name for each in pair(*sides).pairs]  # type: ignore[arg-type]


def test_what_each_side_has_once_may_differ_and_is_told() -> None:
    found = pair(
        [evaluation(model="old", method="tv", shots=0, settings={"dtype": "float32"})],
        [evaluation(model="new", method="tv_m", shots=2, settings={"dtype": "bfloat16"})],
    )
    assert [each.name for each in found.pairs] == ["forward_upper"]
    assert found.varied["model"] == ("old", "new")
    assert found.varied["method"] == ("tv", "tv_m")
    assert found.varied["shots"] == ("0", "2")
    assert found.varied["dtype"] == ("float32", "bfloat16")


def test_where_a_side_has_several_they_are_matched() -> None:
    base = [evaluation(method=method, shots=n) for method, n in (("none", 10), ("tv", 0))]
    new = [
        evaluation(method=method, shots=n, model="new") for method, n in (("tv", 0), ("none", 10))
    ]
    found = pair(base, new)
    assert {each.name for each in found.pairs} == {
        "forward_upper (ICL (10))", "forward_upper (tv)",
    }  # fmt: skip
    assert all(one.method == other.method for p in found.pairs for one, other in p.evaluations)
    assert found.varied == {"model": ("tiny", "new")}


def test_a_setting_of_which_one_side_has_several_is_matched() -> None:
    base = [evaluation(settings={"dev": dev, "demos": 10}) for dev in (10, 50)]
    found = pair(base, [evaluation(settings={"dev": 50, "demos": 8})])
    (one,) = found.pairs
    assert one.name == "forward_upper (dev=50)"
    assert [each.settings["dev"] for each in one.evaluations[0]] == [50, 50]
    assert found.only_base == ("forward_upper (dev=10)",)
    assert found.varied == {"demos": ("10", "8")}


def test_settings_are_those_of_a_method() -> None:
    """That plain runs have no `dev` makes it no second value beside that of steered ones."""

    def side(dev: int) -> list[Evaluation]:
        steered = evaluation(method="tv", settings={"dev": dev})
        return [steered, evaluation(method="none", shots=10)]

    found = pair(side(10), side(50))
    assert [each.name for each in found.pairs] == [
        "forward_upper (tv)", "forward_upper (ICL (10))",
    ]  # fmt: skip
    assert found.varied == {"dev": ("10", "50")}


def test_dtypes_are_those_of_a_model() -> None:
    """Where a model was run in two, they are matched, whichever methods were run in which."""

    def side(plain: str, steered: str) -> list[Evaluation]:
        return [
            evaluation(method="none", settings={"dtype": plain}),
            evaluation(method="tv", settings={"dtype": steered}),
        ]

    found = pair(side("float32", "bfloat16"), side("bfloat16", "float32"))
    assert found.pairs == ()
    assert found.only_base == (
        "forward_upper (zero-shot, dtype=float32)", "forward_upper (tv, dtype=bfloat16)",
    )  # fmt: skip


def test_between_methods_the_settings_of_both_are_told() -> None:
    found = pair(
        [evaluation(method="none", settings={"dtype": "float32"})],
        [evaluation(method="tv", settings={"dtype": "bfloat16", "dev": 50})],
    )
    assert found.varied == {"method": ("none", "tv"), "dtype": ("float32", "bfloat16")}


def test_seeds_of_a_task_are_put_together() -> None:
    base = [evaluation(seed=seed) for seed in (2, 1)]
    (found,) = pair(base, [evaluation(seed=seed, model="new") for seed in (1, 2)]).pairs
    assert [one.seed for one, _ in found.evaluations] == [1, 2]
    assert all(one.seed == other.seed for one, other in found.evaluations)


def test_what_is_on_one_side_only_is_named() -> None:
    base = [evaluation("forward_upper", seed=seed) for seed in (1, 2)]
    new = [evaluation("forward_upper", seed=1), evaluation("forward_past", seed=1)]
    found = pair(base, new)
    assert found.only_base == ("forward_upper (seed 2)",)
    assert found.only_new == ("forward_past (seed 1)",)


def test_several_evaluations_in_one_place_are_refused_by_name() -> None:
    base = [evaluation(settings={"dev": 10}), evaluation(settings={"dev": 50})]
    new = [evaluation(model="new")]
    assert pair(base, new).only_base == ("forward_upper (dev=10)", "forward_upper (dev=50)")
    with pytest.raises(UsageError, match="BASE has several evaluations of forward_upper"):
        pair([evaluation(), evaluation()], new)
