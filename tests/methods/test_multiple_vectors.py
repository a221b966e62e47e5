"""Vectors at every cue (`tv_m`, `tv_ms`) against a slow implementation of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.tasks import TaskManager
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.steering.episodes import (
    Episode,
    EpisodeShape,
    companions,
    development_episodes,
    episode_about,
    reusable_episodes,
)
from harness_ext.steering.task_context import TaskContext
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle, word_prompt
from tests.models import LAYERS

TASK = "forward_upper3"
DEMOS, DEV, SHOTS, DOCUMENTS = 3, 4, 2, 6
SHAPE = EpisodeShape(DEMOS, SHOTS, 1)
SEVERAL = ("tv_m", "tv_ms")


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture
def context(manager: TaskManager) -> TaskContext:
    task = manager.load([TASK])["tasks"][TASK]
    task.set_fewshot_seed(1234)
    task.set_config("num_fewshot", SHOTS)
    return TaskContext(task, {})


def extraction(episode: Episode) -> str:
    return word_prompt(episode.demonstrations, episode.dummies[0])


def vectors_by_hand(
    method: str, context: TaskContext, oracle: Oracle, episodes: list[Episode], layer: int
) -> list[list[Tensor]]:
    """For each episode the vectors of its prompt's three cues."""
    if method == "tv_ms":
        prompts = [extraction(episode) for episode in episodes]
        return [
            [oracle.state(p, layer, cue) for cue in oracle.cues(p)[-SHOTS - 1 :]] for p in prompts
        ]
    others, chosen = companions(context, episodes, SHAPE, SHOTS, DEV, 0)
    return [
        [oracle.state(extraction(e), layer) for e in (*(others[k] for k in own), episode)]
        for episode, own in zip(episodes, chosen, strict=True)
    ]


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("method", SEVERAL)
def test_every_cue_of_the_prompt_gets_its_own_vector(
    method: str,
    layer: int,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    context: TaskContext,
    oracle: Oracle,
) -> None:
    lm = steered(method=method, layer=layer, batch_size=3)
    found = evaluate(lm, TASK, limit=DOCUMENTS, num_fewshot=SHOTS)
    documents = [context.task.test_docs()[number] for number in range(DOCUMENTS)]
    episodes = [episode_about(context, document, SHAPE, 0, 0) for document in documents]
    vectors = vectors_by_hand(method, context, oracle, episodes, layer)
    prompts = [word_prompt(e.shots, e.query) for e in episodes]
    expected = [
        [[oracle.answer(prompt, layer, own)]] for prompt, own in zip(prompts, vectors, strict=True)
    ]
    last_only = [
        [[oracle.answer(prompt, layer, own[-1])]]
        for prompt, own in zip(prompts, vectors, strict=True)
    ]
    assert answers(found, TASK) == expected
    assert expected != last_only


@pytest.mark.parametrize("method", SEVERAL)
def test_the_layer_is_chosen_on_prompts_of_as_many_shots(
    method: str,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    context: TaskContext,
    oracle: Oracle,
) -> None:
    found = evaluate(steered(method=method, dev=DEV), TASK, limit=1, num_fewshot=SHOTS)
    record = found["config"]["steering"]["tasks"][TASK]
    episodes = development_episodes(context, SHAPE, DEV, 0)
    by_layer = []
    for layer in range(LAYERS):
        total = 0.0
        vectors = vectors_by_hand(method, context, oracle, episodes, layer)
        for episode, own in zip(episodes, vectors, strict=True):
            prompt = word_prompt(episode.shots, episode.query)
            # The tokenizer writes a blank, then the letter: both are scored, one after the other.
            opening = oracle.ids(" " + episode.query["target"])[:2]
            fed = [*oracle.ids(prompt), opening[0]]
            rows = oracle.logits(fed, layer, own, oracle.cues(prompt))[-2:].log_softmax(dim=1)
            total += float(rows[[0, 1], opening].sum())
        by_layer.append(total / DEV)
    assert record["development_log_prob_by_layer"] == pytest.approx(by_layer, abs=1e-3)


@pytest.mark.parametrize("average", [0, 3])
@pytest.mark.parametrize("method", SEVERAL)
def test_in_a_zero_shot_prompt_all_three_methods_are_one(
    method: str,
    average: int,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
) -> None:
    expected, found = (
        evaluate(steered(method=each, average=average), TASK, limit=DOCUMENTS)
        for each in ("tv", method)
    )
    assert answers(found, TASK) == answers(expected, TASK)
    records = [each["config"]["steering"]["tasks"][TASK] for each in (found, expected)]
    assert records[0] == records[1]


@pytest.mark.parametrize("method", SEVERAL)
def test_reusable_vectors_are_means_over_episodes(
    method: str,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    context: TaskContext,
    oracle: Oracle,
) -> None:
    lm = steered(method=method, average=3, layer=1)
    found = evaluate(lm, TASK, limit=DOCUMENTS, num_fewshot=SHOTS)
    prompts = [extraction(e) for e in reusable_episodes(context, SHAPE, 3, 0)]
    places = [[oracle.cues(p)[k] for p in prompts] for k in (-3, -2, -1)]
    if method == "tv_m":
        places = [places[-1]] * 3
    vectors = [
        torch.stack([oracle.state(p, 1, cue) for p, cue in zip(prompts, own, strict=True)]).mean(0)
        for own in places
    ]
    expected = []
    for number in range(DOCUMENTS):
        document = context.task.test_docs()[number]
        shots = episode_about(context, document, SHAPE, 0, 0).shots
        expected.append([[oracle.answer(word_prompt(shots, document), 1, vectors)]])
    assert answers(found, TASK) == expected


@pytest.mark.parametrize("method", SEVERAL)
def test_several_dummy_queries_are_averaged_at_every_cue(
    method: str,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    context: TaskContext,
    oracle: Oracle,
) -> None:
    lm = steered(method=method, queries=2, layer=1, average=1)
    found = evaluate(lm, TASK, limit=2, num_fewshot=SHOTS)
    shape = EpisodeShape(DEMOS, SHOTS, 2)
    [episode] = reusable_episodes(context, shape, 1, 0)
    prompts = [word_prompt(episode.demonstrations, dummy) for dummy in episode.dummies]
    states = [[oracle.state(p, 1, cue) for cue in oracle.cues(p)[-3:]] for p in prompts]
    vectors = [torch.stack(own).mean(0) for own in zip(*states, strict=True)]
    expected = []
    for number in range(2):
        document = context.task.test_docs()[number]
        prompt = word_prompt(episode_about(context, document, shape, 0, 0).shots, document)
        own = vectors[-1:] * 3 if method == "tv_m" else vectors
        expected.append([[oracle.answer(prompt, 1, own)]])
    assert answers(found, TASK) == expected


@pytest.mark.parametrize("method", ["tv", *SEVERAL])
def test_where_demonstrations_are_cut_off_the_cues_that_are_left_are_steered(
    method: str,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    context: TaskContext,
    oracle: Oracle,
    caplog: pytest.LogCaptureFixture,
) -> None:
    document = context.task.test_docs()[0]
    episode = episode_about(context, document, SHAPE, 0, 0)
    prompt = word_prompt(episode.shots, document)
    ids = oracle.ids(prompt)
    room = len(ids) - oracle.cues(prompt)[0] - 1  # the first demonstration loses its arrow
    lm = steered(method=method, layer=1)
    new = 8
    # Only the tested prompt is shortened: extraction keeps the length it needs.
    object.__setattr__(lm, "_max_length", room + new)
    with caplog.at_level(logging.WARNING, "harness_ext"):
        found = evaluate(lm, TASK, limit=1, num_fewshot=SHOTS)
    [vectors] = vectors_by_hand("tv_m" if method == "tv" else method, context, oracle, [episode], 1)
    left = vectors[-1:] if method == "tv" else vectors[-2:]
    cues = [cue - (len(ids) - room) for cue in oracle.cues(prompt)][-len(left) :]
    row = ids[-room:]
    while len(row) < room + new:
        row.append(int(oracle.logits(row, 1, left, cues)[-1].argmax()))
    text = oracle.tokenizer.decode(row[room:], skip_special_tokens=True).split("\n")[0]
    assert answers(found, TASK) == [[[text]]]
    record = found["config"]["steering"]["tasks"][TASK]
    assert record["prompts_cut"] == 1
    assert "1 of 1 prompts exceed max_length and lose their beginning" in caplog.text


def test_a_method_after_another_reads_no_development_prompt_again(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    base = steered(layer=1, batch_size=64)
    rows: list[int] = []

    def note(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("use_cache") is False and "logits_to_keep" not in kwargs:
            rows.append(len(kwargs["input_ids"]))

    base.model.register_forward_pre_hook(note, with_kwargs=True)
    arguments = {"demos": DEMOS, "dev": DEV}
    counts = {}
    for method in ("tv", "tv_m", "tv_ms"):
        rows.clear()
        lm = base.with_steering(method=method, **arguments)
        found = evaluate(lm, TASK, limit=1, num_fewshot=SHOTS)
        counts[method] = sum(rows)
        fresh = evaluate(steered(method=method), TASK, limit=1, num_fewshot=SHOTS)
        assert found["samples"] == fresh["samples"]
    assert counts["tv"] == DEV + 1
    assert counts["tv_m"] < DEV + 1  # the tested prompt, and companions that were new
    assert counts["tv_ms"] == DEV + 1  # more cues than were read
    rows.clear()
    evaluate(base.with_steering(method="tv", **arguments), TASK, limit=1, num_fewshot=SHOTS)
    assert not rows


def test_states_are_not_remembered_beyond_an_evaluation(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    lm = steered()
    before = evaluate(lm, TASK, limit=2)
    with torch.no_grad():
        for layer in lm.model.model.layers:
            layer.mlp.down_proj.weight.neg_()
    after = evaluate(lm, TASK, limit=2)
    fresh = evaluate(steered(pretrained=lm.model, tokenizer=lm.tokenizer), TASK, limit=2)
    assert after["config"]["steering"]["tasks"] == fresh["config"]["steering"]["tasks"]
    assert after["samples"] == fresh["samples"] != before["samples"]


def test_more_shots_than_the_extraction_prompt_has_demonstrations_are_refused(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    with pytest.raises(UsageError, match=r"demos=3 gives that only 4 cues. Raise demos to 5"):
        evaluate(steered(method="tv_ms"), TASK, limit=1, num_fewshot=5)


@pytest.mark.parametrize("method", SEVERAL)
def test_a_cue_inside_a_word_is_refused_where_every_cue_is_steered(
    method: str,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    stock_task: Callable[..., dict[str, Any]],
) -> None:
    config = stock_task("arrows", "generate_until", doc_to_text="Example: {{question}}→b →")
    with pytest.raises(UsageError, match=r"'→' also occurs inside 'Example: ..→b →'"):
        evaluate(steered(method=method), config, limit=1, num_fewshot=SHOTS)


def test_only_steering_arguments_can_be_changed_on_a_loaded_model(
    steered: Callable[..., TaskVectorLM],
) -> None:
    with pytest.raises(UsageError, match="not dtype; load another model"):
        steered(layer=1).with_steering(dtype="float16")
    with pytest.raises(UsageError, match="layer=9 is out of range"):
        steered(layer=1).with_steering(layer=9)


def test_what_was_read_up_to_a_layer_serves_layers_before_it(
    steered: Callable[..., TaskVectorLM], evaluate: Callable[..., Results]
) -> None:
    base = steered(layer=1, batch_size=64)
    rows: list[int] = []

    def note(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("use_cache") is False:
            rows.append(len(kwargs["input_ids"]))

    base.model.register_forward_pre_hook(note, with_kwargs=True)

    def read(layer: int) -> int:
        rows.clear()
        lm = base.with_steering(layer=layer, demos=DEMOS)
        found = evaluate(lm, TASK, limit=3)
        assert found["samples"] == evaluate(steered(layer=layer), TASK, limit=3)["samples"]
        return sum(rows)

    assert [read(layer) for layer in (2, 1, 2, 3)] == [3, 0, 0, 3]
    base._memory.budget = 4 * 3 * 2 * 32 - 1
    base._memory.clear()
    assert [read(layer) for layer in (1, 1, 0, 0)] == [3, 3, 3, 0]
