from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness_ext.compare.merge import merge
from harness_ext.compare.outputs import Output, read_output
from harness_ext.errors import UsageError
from tests.compare.output import answered, write_output

Change = Callable[[dict[str, Any]], object]
Runs = Callable[..., dict[Path, Output]]


@pytest.fixture
def output(tmp_path: Path) -> Runs:
    """Writes and reads a run of one task, its results file changed as given."""

    def build(task: str, change: Change = lambda results: None, method: str = "tv") -> Any:
        path = write_output(tmp_path / task / method, answered([task], lambda doc: 1), method)
        results = json.loads(path.read_text())
        change(results)
        path.write_text(json.dumps(results))
        return {path: read_output(path)}

    return build


def test_what_is_kept_by_task_is_joined(output: Runs) -> None:
    runs = output("forward_upper") | output("bijection_upper")
    merged = merge(runs)
    assert list(merged.samples) == ["forward_upper", "bijection_upper"]
    for key in ("results", "configs", "n-shot", "n-samples"):
        for run in runs.values():
            for task, value in run.results[key].items():
                assert merged.results[key][task] == value
        assert len(merged.results[key]) == 2
    assert set(merged.results["config"]["steering"]["tasks"]) == set(merged.samples)
    assert "groups" not in merged.results


def test_groups_are_joined(output: Runs) -> None:
    first = output("forward_upper", lambda r: r.update(groups={"a": {"answer_match,none": 0.5}}))
    second = output("bijection_upper", lambda r: r.update(groups={"b": {}}))
    assert set(merge(first | second).results["groups"]) == {"a", "b"}


def test_the_date_is_the_latest_and_times_add_up(output: Runs) -> None:
    first = output("forward_upper", lambda r: r.update(date=2.5))
    later = output("bijection_upper", lambda r: r.update(date=7.5))
    merged = merge(later | first).results
    assert merged["date"] == 7.5
    assert merged["total_evaluation_time_seconds"] == "35.0"


def test_what_runs_need_not_share_is_kept_where_they_do(output: Runs) -> None:
    def differ(results: dict[str, Any]) -> None:
        results |= {"git_hash": "def", "max_length": 8}
        results["config"] |= {"batch_size": 16, "device": "cpu"}

    def plain(results: dict[str, Any]) -> None:
        results |= {"git_hash": "abc", "max_length": 8}
        results["config"] |= {"batch_size": 1, "device": "cpu"}

    merged = merge(output("forward_upper", plain) | output("bijection_upper", differ)).results
    assert merged["max_length"] == 8
    assert merged["config"]["device"] == "cpu"
    assert "git_hash" not in merged
    assert "batch_size" not in merged["config"]


def test_a_run_alone_is_left_as_it_is(output: Runs) -> None:
    runs = output("forward_upper")
    assert merge(runs) is next(iter(runs.values()))


def test_runs_without_steering_are_merged(output: Runs) -> None:
    runs = output("forward_upper", method="hf") | output("bijection_upper", method="hf")
    assert "steering" not in merge(runs).results["config"]


def test_a_task_or_group_in_two_runs_is_refused_with_both_files(output: Runs) -> None:
    runs = {
        **output("forward_upper", lambda r: r.update(groups={"both": {}})),
        **output("bijection_upper", lambda r: r.update(groups={"both": {}})),
    }
    with pytest.raises(
        UsageError, match="are both runs of both in tiny/tv-0shot-seed1234"
    ) as error:
        merge(runs)
    assert all(str(path) in str(error.value) for path in runs)


def config(**values: Any) -> Change:
    return lambda results: results["config"].update(values)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (config(limit=50), "config.limit is None in the first and 50 in the second"),
        (config(fewshot_seed=7), "config.fewshot_seed is 1234 in the first and 7 in"),
        (config(model_dtype="torch.bfloat16"), "config.model_dtype is 'torch.float32' in"),
        (
            lambda r: r["config"]["steering"]["arguments"].update(dev=10),
            "config.steering.arguments.dev is 50 in the first and 10 in the second",
        ),
        (
            lambda r: r["config"]["steering"].update(model={"tokenizer_sha256": "ab"}),
            "config.steering.model.tokenizer_sha256 is None in the first and 'ab' in the second",
        ),
        (lambda r: r.update(lm_eval_version="0.5"), "lm_eval_version is '0.4.13' in"),
        (lambda r: r.update(transformers_version="6"), "transformers_version is '5.24.0' in"),
        (
            lambda r: r.update(model_name="packaged:big"),
            "model_name is 'packaged:tiny' in the first and",
        ),
        (
            lambda r: r.update(pretty_env_info="PyTorch version: 2.14.0"),
            "pretty_env_info is 'PyTorch version: 2.13.0",
        ),
    ],
)
def test_runs_that_were_not_made_alike_are_refused_with_both_values(
    output: Runs, change: Change, said: str
) -> None:
    runs = output("forward_upper") | output("bijection_upper", change)
    with pytest.raises(UsageError, match=said) as error:
        merge(runs)
    assert all(str(path) in str(error.value) for path in runs)


@pytest.mark.parametrize("key", ["date", "total_evaluation_time_seconds"])
@pytest.mark.parametrize("value", [None, "soon", [1], float("nan"), 10**400])
def test_a_run_without_its_date_or_time_is_refused_by_name(
    output: Runs, key: str, value: Any
) -> None:
    runs = output("forward_upper") | output("bijection_upper", lambda r: r.update({key: value}))
    with pytest.raises(UsageError, match=rf"bijection_upper.*: {key}=.* is not a number"):
        merge(runs)


@pytest.mark.parametrize("key", ["date", "total_evaluation_time_seconds"])
def test_a_run_that_says_nothing_of_its_date_or_time_is_refused(output: Runs, key: str) -> None:
    runs = output("forward_upper") | output("bijection_upper", lambda r: r.pop(key))
    with pytest.raises(UsageError, match=rf"bijection_upper.*: {key}=None is not a number"):
        merge(runs)
