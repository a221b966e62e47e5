"""Layer and strength chosen on development episodes, against a slow loop of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.tasks import TaskManager
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_ext.lm import TaskVectorLM
from harness_ext.methods import selection
from harness_ext.steering.episodes import EpisodeShape, development_episodes
from harness_ext.steering.scoring import SweepScores
from harness_ext.steering.task_context import TaskContext
from tests.lm.conftest import Results
from tests.lm.oracle import Oracle
from tests.models import LAYERS, save_tiny

DEMOS = 3
EPISODES = 9
CHOICES = ["yes", "no", "maybe so"]
# Answers begin right behind the arrow, so that their first letters tell them apart.
GENERATE = {"target_delimiter": "", "generation_kwargs": {"until": ["\n"], "max_gen_toks": 2}}


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model inclined to the letters that answers begin with: it gets some right by chance."""
    folder = save_tiny(tmp_path_factory.mktemp("talkative"), "llama", "split", seed=7)
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        for letter in "ynm":
            [token] = tokenizer.encode(letter)
            model.lm_head.weight[token] *= 10
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def oracle(talkative: Path) -> Oracle:
    return Oracle(talkative)


Candidate = tuple[int, float | None]


def by_hand(
    config: dict[str, Any], oracle: Oracle, candidates: Sequence[Candidate], shots: int = 0
) -> dict[Candidate, tuple[float, float]]:
    """Development accuracy, and mean log-probability of the right answer, of each candidate."""
    task = TaskManager(include_defaults=False).load([config])["tasks"][config["task"]]
    task.set_config("num_fewshot", shots)
    delimiter = config["target_delimiter"]
    shape = EpisodeShape(DEMOS, shots, 1)

    def text(shown: Sequence[Any], query: Any) -> str:
        lines = [f"Example: {d['question']} →{delimiter}{d['answer']}\n" for d in shown]
        return "".join([*lines, f"Example: {query['question']} →"])

    found = {}
    for layer, strength in candidates:
        rights, log_probs = [], []
        for episode in development_episodes(TaskContext(task, {}), shape, EPISODES, 0):
            vector = oracle.state(text(episode.demonstrations, episode.dummies[0]), layer)
            prompt, right = text(episode.shots, episode.query), episode.query["answer"]
            if config["output_type"] == "multiple_choice":
                scores = {
                    choice: oracle.score(prompt, delimiter + choice, layer, vector, strength)[0]
                    for choice in CHOICES
                }
                rights.append(max(scores, key=lambda choice: scores[choice]) == right)
                log_probs.append(scores[right])
            else:
                ids = oracle.ids(prompt)
                logits = oracle.logits(ids, layer, [vector], [len(ids) - 1], strength)[-1]
                [first] = oracle.ids(right[0])
                rights.append(int(logits.argmax()) == first)
                log_probs.append(float(logits.log_softmax(dim=0)[first]))
        found[layer, strength] = (sum(rights) / EPISODES, sum(log_probs) / EPISODES)
    return found


def best(found: dict[Candidate, tuple[float, float]]) -> Candidate:
    return max(found, key=lambda candidate: (*found[candidate], -list(found).index(candidate)))


@pytest.mark.parametrize("shots", [0, 2])
@pytest.mark.parametrize(
    ("output_type", "settings"),
    [("generate_until", GENERATE), ("multiple_choice", {})],
    ids=["generation", "choices"],
)
def test_the_layer_is_the_one_a_slow_loop_chooses(
    shots: int,
    output_type: str,
    settings: dict[str, Any],
    talkative: Path,
    oracle: Oracle,
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    config = stock_task("chosen", output_type, **settings)
    lm = TaskVectorLM(pretrained=str(talkative), demos=DEMOS, dev=EPISODES)
    record = evaluate(lm, config, limit=2, num_fewshot=shots)["config"]["steering"]["tasks"][
        "chosen"
    ]
    expected = by_hand(config, oracle, [(layer, None) for layer in range(LAYERS)], shots)
    accuracies, log_probs = zip(*expected.values(), strict=True)
    assert record["development_accuracy_by_layer"] == pytest.approx(accuracies, abs=1e-3)
    assert record["development_log_prob_by_layer"] == pytest.approx(log_probs, abs=1e-3)
    assert record["layer"] == best(expected)[0]
    assert record["development_accuracy"] == pytest.approx(max(accuracies), abs=1e-3)
    assert record["development_episodes"] == EPISODES
    assert record["shots"] == shots


@pytest.mark.parametrize("layer", ["auto", 2])
def test_layer_and_strength_are_chosen_together(
    layer: int | str,
    talkative: Path,
    oracle: Oracle,
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    config = stock_task("chosen", "generate_until", **GENERATE)
    lm = TaskVectorLM(pretrained=str(talkative), demos=DEMOS, dev=EPISODES, mode="add", layer=layer)
    record = evaluate(lm, config, limit=2)["config"]["steering"]["tasks"]["chosen"]
    layers = range(LAYERS) if layer == "auto" else [2]
    candidates = [(n, strength) for n in layers for strength in (0.5, 1.0, 2.0, 4.0)]
    expected = by_hand(config, oracle, candidates)
    assert (record["layer"], record["strength"]) == best(expected)
    assert record["layers"] == list(layers)
    for strength, accuracies in record["development_accuracy_by_layer"].items():
        own = [expected[n, float(strength)][0] for n in layers]
        assert accuracies == pytest.approx(own, abs=1e-3)


def test_the_models_tried_are_not_all_alike(
    oracle: Oracle, stock_task: Callable[..., dict[str, Any]]
) -> None:
    config = stock_task("chosen", "generate_until", **GENERATE)
    found = by_hand(config, oracle, [(layer, None) for layer in range(LAYERS)])
    accuracies = [accuracy for accuracy, _ in found.values()]
    assert len(set(accuracies)) > 1
    assert best(found)[0] != 0


@pytest.mark.parametrize(
    ("right", "log_prob", "layer"),
    [
        ([1, 2, 3, 2], [-1, -2, -9, -1], 2),
        ([3, 3, 2, 3], [-4, -2, -1, -3], 1),
        ([0, 3, 3, 3], [-1, -2, -2, -2], 1),
    ],
    ids=["accuracy", "then log-probability", "then the earlier layer"],
)
def test_accuracy_decides_then_log_probability_then_the_earlier_layer(
    right: list[int],
    log_prob: list[float],
    layer: int,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scores(*args: Any) -> SweepScores:
        hits = torch.tensor([[n < count for count in right] for n in range(4)])
        likely = torch.tensor(log_prob).float().expand(4, -1)
        return SweepScores(right=hits.unsqueeze(2), log_prob=likely.unsqueeze(2))

    monkeypatch.setattr(selection, "sweep_layers", scores)
    found = evaluate(steered(dev=4), "forward_upper3", limit=1)
    assert found["config"]["steering"]["tasks"]["forward_upper3"]["layer"] == layer


def test_a_best_accuracy_of_0_is_a_warning_in_log_and_results(
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
    talkative: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger=selection.__name__):
        found = evaluate(steered(), "forward_upper3", limit=1)
    record = found["config"]["steering"]["tasks"]["forward_upper3"]
    assert record["development_accuracy"] == 0
    assert "forward_upper3" in record["warning"]
    assert [r.getMessage() for r in caplog.records if r.name == selection.__name__] == [
        record["warning"]
    ]
    lm = TaskVectorLM(pretrained=str(talkative), demos=DEMOS, dev=EPISODES)
    fine = evaluate(lm, stock_task("fine", "generate_until", **GENERATE), limit=1)
    assert fine["config"]["steering"]["tasks"]["fine"]["warning"] is None
