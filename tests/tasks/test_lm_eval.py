"""The word tasks under lm-eval's own evaluator."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable, make_table

Rows = list[dict[str, Any]]


def right(request: Any) -> str:
    return f" {request.doc['target']} and so on"


def right_in_two_of_three(request: Any) -> str:
    doc = request.doc
    return f" {doc['target']}" if crc32(f"{doc['query']}{doc['draw']}".encode()) % 3 else " ?"


def run(lm: Any, manager: TaskManager, tasks: list[str], **settings: Any) -> Any:
    return simple_evaluate(model=lm, tasks=tasks, task_manager=manager, **settings)


@pytest.fixture(scope="module")
def everything(manager: TaskManager, rule_lm: Any) -> Any:
    """All tasks, zero-shot, answered right in about two of three documents."""
    return run(rule_lm(right_in_two_of_three), manager, ["taskvec"])


@pytest.mark.parametrize(
    "group", ["taskvec", "taskvec_forward", "taskvec_inverse", "taskvec_bijection"]
)
def test_a_group_is_the_mean_of_its_tasks(everything: Any, group: str) -> None:
    direction = group.removeprefix("taskvec").strip("_")
    members = [
        result
        for name, result in everything["results"].items()
        if name.startswith(direction) and not name.startswith("taskvec")
    ]
    values = [result["answer_match,none"] for result in members]
    errors = [result["answer_match_stderr,none"] for result in members]
    assert min(errors) > 0 and len(set(values)) > 3
    found = everything["groups"][group]
    assert found["answer_match,none"] == pytest.approx(statistics.fmean(values))
    expected = math.sqrt(sum(error**2 for error in errors)) / len(errors)
    assert found["answer_match_stderr,none"] == pytest.approx(expected)


def test_bijections_alone_aggregate_pair_match(everything: Any) -> None:
    assert "pair_match,none" in everything["groups"]["taskvec_bijection"]
    assert "pair_match,none" not in everything["groups"]["taskvec_forward"]


def test_every_standard_error_clusters_by_query(everything: Any) -> None:
    for name, samples in everything["samples"].items():
        by_query = defaultdict(list)
        for sample in samples:
            by_query[sample["doc"]["query"]].append(sample["answer_match"])
        # Every query stands in as many documents, so the means of the queries carry all there is.
        means = [statistics.fmean(scores) for scores in by_query.values()]
        expected = statistics.stdev(means) / math.sqrt(len(means))
        error = everything["results"][name]["answer_match_stderr,none"]
        assert error == pytest.approx(expected), name


def test_the_printed_table_shows_the_clustered_standard_error(everything: Any) -> None:
    result = everything["results"]["bijection_upper"]
    docs = everything["n-samples"]["bijection_upper"]["effective"]
    value, error = result["answer_match,none"], result["answer_match_stderr,none"]
    independent = math.sqrt(value * (1 - value) / (docs - 1))
    assert error != pytest.approx(independent, rel=0.01)
    shown = make_table({**everything, "results": {"bijection_upper": result}})
    assert f"|answer_match|↑  |{value:.4f}|±  |{error:.4f}|" in shown
    assert "_stderr" not in shown


def test_the_results_can_be_written_as_json(everything: Any) -> None:
    assert json.dumps(everything, default=handle_non_serializable)


def test_answer_match_is_the_first_metric_and_higher_is_better(everything: Any) -> None:
    for name, samples in everything["samples"].items():
        assert samples[0]["metrics"][0] == "answer_match"
        assert set(everything["higher_is_better"][name].values()) == {True}


def test_right_answers_score_1_and_queries_said_again_score_only_as_the_pair(
    manager: TaskManager, rule_lm: Any
) -> None:
    tasks = ["bijection_french", "forward_past"]
    of_answers = run(rule_lm(right), manager, tasks, limit=20)["results"]
    of_queries = run(rule_lm(lambda r: r.doc["query"]), manager, tasks, limit=20)["results"]
    values = {
        metric: (
            of_answers["bijection_french"][f"{metric},none"],
            of_queries["bijection_french"][f"{metric},none"],
        )
        for metric in ("answer_match", "exact_match", "tr_ratio", "pair_match", "side_match")
    }
    assert values == {
        "answer_match": (1.0, 0.0),
        "exact_match": (0.0, 0.0),
        "tr_ratio": (1.0, 1.0),
        "pair_match": (1.0, 1.0),
        "side_match": (1.0, 0.0),
    }
    assert of_queries["forward_past"]["tr_ratio,none"] == 0.0


def prompts(rule_lm: Any, manager: TaskManager, tasks: list[str], **settings: Any) -> list[str]:
    lm = rule_lm(right)
    run(lm, manager, tasks, **settings)
    found: list[str] = lm.prompts
    return found


def test_prompts_do_not_depend_on_limit_or_samples_or_other_tasks(
    manager: TaskManager, rule_lm: Any
) -> None:
    task = "bijection_upper"
    full = prompts(rule_lm, manager, [task], num_fewshot=4)
    assert prompts(rule_lm, manager, [task], num_fewshot=4, limit=3) == full[:3]
    chosen = prompts(rule_lm, manager, [task], num_fewshot=4, samples={task: [2, 50]})
    assert chosen == [full[2], full[50]]
    beside = prompts(rule_lm, manager, ["forward_upper", task], num_fewshot=4)
    assert beside[-len(full) :] == full


def test_prompts_do_not_depend_on_the_number_of_processes(manager: TaskManager) -> None:
    def built(**share: int) -> list[str]:
        (task,) = manager.load("bijection_upper")["tasks"].values()
        task.set_config("num_fewshot", 4)
        task.set_fewshot_seed(1234)
        task.build_all_requests(**share)
        return [instance.args[0] for instance in task.instances]

    assert built(rank=1, world_size=3) == built()[1::3]


def test_the_few_shot_seed_changes_demonstrations_and_nothing_else(
    manager: TaskManager, rule_lm: Any
) -> None:
    one, other = (
        prompts(rule_lm, manager, ["forward_upper"], num_fewshot=3, fewshot_random_seed=seed)
        for seed in (1, 2)
    )
    assert one != other
    assert [prompt.split("\n")[-1] for prompt in one] == [p.split("\n")[-1] for p in other]


def test_a_query_that_stands_again_gets_other_demonstrations(
    manager: TaskManager, rule_lm: Any
) -> None:
    shown = prompts(rule_lm, manager, ["forward_next_letter"], num_fewshot=8)
    assert len(set(shown)) == len(shown) == 54
    assert len({prompt.split("\n")[-1] for prompt in shown}) == 9


def test_no_task_shows_the_tested_query_in_its_demonstrations(manager: TaskManager) -> None:
    for task in manager.load("taskvec")["tasks"].values():
        task.set_fewshot_seed(0)
        for doc in task.eval_docs.select(range(20)):
            for shot in task.sampler.order(doc):
                assert doc["query"] not in (shot["query"], shot["target"]), task.task_name


def test_a_chat_template_gets_every_demonstration_as_a_turn(
    manager: TaskManager, rule_lm: Any
) -> None:
    shown = prompts(
        rule_lm,
        manager,
        ["forward_upper"],
        num_fewshot=1,
        limit=1,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
        system_instruction="Answer.",
    )
    (plain,) = prompts(rule_lm, manager, ["forward_upper"], num_fewshot=1, limit=1)
    shot, query = plain.split("\n")
    given, answer = shot.split(" → ")
    assert shown == [f"<system>Answer.<user>{given} →<assistant>{answer}<user>{query}"]


def test_predict_only_computes_no_metric(manager: TaskManager, rule_lm: Any) -> None:
    result = run(rule_lm(right), manager, ["forward_upper"], predict_only=True, limit=2)
    assert result["samples"]["forward_upper"][0]["metrics"] == ["bypass"]


def test_cached_requests_are_the_same_requests(
    manager: TaskManager, rule_lm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_eval.caching.cache.PATH", str(tmp_path / "cache"))
    first, again = (
        prompts(rule_lm, manager, ["forward_upper"], num_fewshot=2, cache_requests=True)
        for _ in range(2)
    )
    assert first == again and list((tmp_path / "cache").iterdir())


def test_a_users_yaml_may_include_ours_and_override_it(
    user_folder: Any, rule_lm: Any, rows: Rows
) -> None:
    manager = user_folder(
        rows, "bijection", description="Go.\n", doc_to_text="{{query}} ->", num_fewshot=1
    )
    lm = rule_lm(right)
    result = run(lm, manager, ["bijection_mine"], limit=4)
    assert lm.prompts[0].startswith("Go.\n") and lm.prompts[0].endswith("\nq20 ->")
    assert result["versions"]["bijection_mine"] == 2.0
    assert result["results"]["bijection_mine"]["answer_match,none"] == 1.0


def test_a_users_yaml_may_score_with_lm_evals_metrics(
    user_folder: Any, rule_lm: Any, rows: Rows
) -> None:
    manager = user_folder(
        rows,
        "forward",
        process_results=None,
        metric_list=[{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    )
    lm = rule_lm(lambda request: request.doc["target"] if request.doc["draw"] else "wrong")
    result = run(lm, manager, ["forward_mine"])["results"]["forward_mine"]
    assert result["exact_match,none"] == pytest.approx(0.8)
    assert result["exact_match_stderr,none"] == pytest.approx(0.0)  # all queries fare the same
