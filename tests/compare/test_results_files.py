from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness_ext.compare.evaluations import Evaluation, Metric
from harness_ext.compare.results_files import plain_name, read_file
from tests.compare.output import answered, write_output

TASKS = ("forward_upper", "bijection_upper")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The results file of a steered run of two tasks, with samples beside it."""
    return write_output(tmp_path, answered(TASKS, lambda doc: doc["side"] == "x"))


def edit(path: Path, *keys: str, value: Any) -> None:
    """Set what stands under the keys; None takes it away."""
    content = json.loads(path.read_text())
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    if value is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    path.write_text(json.dumps(content))


def first(path: Path) -> Evaluation:
    return read_file(path).evaluations[0]


def problems(path: Path) -> list[str]:
    return [problem.message for problem in read_file(path).problems]


def test_each_task_is_an_evaluation(results: Path) -> None:
    forward, both = read_file(results).evaluations
    assert (forward.task, forward.documents) == ("forward_upper", 4)
    assert (both.task, both.documents) == ("bijection_upper", 8)
    assert (both.model, both.method, both.shots, both.seed) == ("tiny", "tv", 0, 1234)
    assert both.metrics["answer_match"].value == 0.5
    assert both.samples is not None and len(both.samples) == 8
    assert problems(results) == []


def test_settings_are_what_may_make_rows_differ(results: Path) -> None:
    settings = first(results).settings
    assert settings == {"demos": 10, "dev": 50, "dtype": "float32"}
    edit(results, "config", "model_dtype", value="torch.bfloat16")
    assert first(results).settings["dtype"] == "bfloat16"


def test_how_questions_were_asked_is_a_setting(results: Path) -> None:
    edit(results, "config", "gen_kwargs", value={"temperature": 0.5})
    edit(results, "chat_template", value="{{ messages }}")
    edit(results, "chat_template_sha", value="0123456789abcdef")
    edit(results, "fewshot_as_multiturn", value=False)
    settings = first(results).settings
    assert settings["gen_kwargs"] == {"temperature": 0.5}
    assert settings["chat_template"] == "01234567"
    assert settings["fewshot_as_multiturn"] is False
    assert "system_instruction" not in settings


def test_what_would_have_been_steered_is_no_setting_of_the_plain_model(tmp_path: Path) -> None:
    path = write_output(tmp_path, answered(TASKS, lambda doc: 1), method="none")
    edit(path, "config", "model_args", value={"pretrained": "x", "dev": 5, "revision": "abc"})
    assert first(path).settings == {"revision": "abc", "dtype": "float32"}


def test_heads_knocked_out_are_a_method_and_their_choice_a_setting(results: Path) -> None:
    arguments = {"method": "none", "ablate": "tr", "head_fraction": 0.1}
    edit(results, "config", "steering", "arguments", value=arguments)
    assert first(results).method == "ablate_tr"


def test_stock_models_are_read_with_arguments_as_text_or_mapping(tmp_path: Path) -> None:
    path = write_output(tmp_path, answered(TASKS, lambda doc: 1), method="hf")
    for given in ("pretrained=x,revision=abc", {"pretrained": "x", "revision": "abc"}):
        edit(path, "config", "model_args", value=given)
        evaluation = first(path)
        assert evaluation.method == "hf" and evaluation.settings["revision"] == "abc"
        assert "pretrained" not in evaluation.settings


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("packaged:smollm2-135m", "smollm2-135m"),
        ("org/model", "org__model"),
        ("/data/models/mine/", "mine"),
        ("./mine", "mine"),
        ("C:\\models\\mine", "mine"),
        ("my model", "my_model"),
    ],
)
def test_a_model_has_a_plain_name(given: str, name: str) -> None:
    assert plain_name(given) == name


def test_filters_are_part_of_a_metrics_name(results: Path) -> None:
    scores = {
        "alias": "x",
        "exact_match,strict-match": 0.25,
        "exact_match_stderr,strict-match": 0.1,
        "exact_match,none": 0.5,
        "exact_match_stderr,none": "N/A",
        "perplexity,none": 12.5,
    }
    edit(results, "results", "forward_upper", value=scores)
    edit(results, "higher_is_better", value={"forward_upper": {"perplexity": False}})
    assert first(results).metrics == {
        "exact_match,strict-match": Metric(0.25, 0.1, True),
        "exact_match": Metric(0.5, None, True),
        "perplexity": Metric(12.5, None, False),
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_a_score_that_is_no_number_is_left_out_and_told(results: Path, value: Any) -> None:
    edit(results, "results", "forward_upper", value={"acc,none": value, "answer_match,none": 0.5})
    assert list(first(results).metrics) == ["answer_match"]
    assert problems(results) == [f"forward_upper: acc={value} is no number to compare."]


def test_a_task_without_any_number_is_left_out_and_told(results: Path) -> None:
    edit(results, "results", "forward_upper", value={"acc,none": float("nan")})
    assert [each.task for each in read_file(results).evaluations] == ["bijection_upper"]
    assert "forward_upper: no score that is a number." in problems(results)


def test_groups_are_those_that_list_the_task(results: Path) -> None:
    edit(results, "group_subtasks", value={"ours": ["forward_upper"], "odd": None, "other": []})
    assert [each.groups for each in read_file(results).evaluations] == [("ours",), ()]


def test_versions_and_weights_are_facts(results: Path) -> None:
    edit(results, "config", "steering", "model", value={"weights_sha256": "abc"})
    facts = first(results).facts
    assert facts["lm-eval"] == "0.4.13" and facts["PyTorch"] == "2.13.0+cpu"
    assert facts["weights sha256"] == "abc" and facts["steering seed"] == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cut off, or not JSON"),
        ('{"results": {"a"', "cut off, or not JSON"),
        ("[1, 2]", "no results file of lm-eval"),
        ('{"results": 3}', "no results file of lm-eval"),
        ('{"results": {}, "versions": {}, "lm_eval_version": "0.2.0"}', "0.2.0"),
        ("null", "no results file of lm-eval"),
    ],
)
def test_what_is_no_results_file_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "results_x.json"
    path.write_text(text)
    found = read_file(path)
    assert found.evaluations == ()
    assert said in str(found.problems[0]) and str(path) in str(found.problems[0])


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "results_x.json"
    path.write_bytes(b"\xff\xfe\x00{")
    assert len(read_file(path).problems) == 1


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("results", "forward_upper"), [1]),
        (("n-samples",), None),
        (("n-samples", "forward_upper"), 7),
        (("n-shot",), [0]),
        (("n-shot",), None),
        (("n-shot", "forward_upper"), "0"),
        (("higher_is_better",), {"forward_upper": 1}),
        (("config", "model_args"), 7),
        (("config", "steering"), "x"),
        (("config", "steering", "tasks"), []),
        (("config", "fewshot_seed"), "1234"),
        (("date",), "yesterday"),
        (("pretty_env_info",), None),
        (("model_name",), 7),
        (("group_subtasks",), {"g": "forward_upper"}),
    ],
)
def test_odd_parts_raise_nothing_and_leave_the_other_task_readable(
    results: Path, keys: tuple[str, ...], value: Any
) -> None:
    edit(results, *keys, value=value)
    assert "bijection_upper" in [each.task for each in read_file(results).evaluations]


def test_a_different_number_of_samples_leaves_the_scores_alone(results: Path) -> None:
    edit(results, "n-samples", "forward_upper", value={"original": 9, "effective": 9})
    assert first(results).samples is None and first(results).documents == 9
    assert problems(results)[0].startswith("forward_upper: 4 samples, where the results file")


def test_results_without_samples_are_read_without_a_word(results: Path) -> None:
    for path in results.parent.glob("samples_*"):
        path.unlink()
    assert first(results).samples is None and first(results).documents == 4
    assert problems(results) == []


@pytest.mark.parametrize("count", [10**400, -5, 2.5, True])
def test_a_number_of_documents_that_cannot_be_is_none(results: Path, count: object) -> None:
    for path in results.parent.glob("samples_*"):
        path.unlink()
    edit(results, "n-samples", "forward_upper", "effective", value=count)
    assert first(results).documents is None


def test_a_model_without_a_name_is_unknown(results: Path) -> None:
    edit(results, "model_name", value="/")
    edit(results, "config", "model_args", value={})
    assert first(results).model == "unknown"
