from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from harness_ext.steering import sweep
from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.one_pass import one_pass
from harness_ext.steering.scoring import SweepPrompt, SweepScores
from harness_ext.steering.sweep import layer_loop, sweep_layers
from tests.models import LAYERS, RECURRENT, tiny_model
from tests.steering import oracle


def score(logits: Tensor, targets: Sequence[tuple[int, ...]]) -> tuple[bool, float]:
    """From the logits [positions, vocabulary] of a prompt."""
    log_prob = sum(
        float(torch.log_softmax(row, 0)[list(ids)].exp().sum().log())
        for row, ids in zip(logits[-len(targets) :], targets, strict=True)
    )
    right = all(
        int(row.argmax()) in ids for row, ids in zip(logits[-len(targets) :], targets, strict=True)
    )
    return right, log_prob


def changed_by(vector: Tensor, strength: float | None, state: Tensor) -> Tensor:
    return vector.expand_as(state) if strength is None else state + strength * vector


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text", "bloom"], scope="module")
def test_the_loop_scores_what_single_forwards_with_changed_states_score(
    family: str, prompts: list[SweepPrompt], vectors: Tensor
) -> None:
    anatomy = dissect(tiny_model(family))
    layers = oracle.decoder_layers(family, anatomy.model)
    found = layer_loop(anatomy, prompts, vectors, (None, 2.0))
    assert found.right.shape == found.log_prob.shape == (len(prompts), LAYERS, 2)
    for n, own in enumerate(prompts):
        for layer in range(LAYERS):
            for column, strength in enumerate((None, 2.0)):
                with ExitStack() as stack:
                    for cue, vector in zip(
                        own.cues, vectors[n, layer, -len(own.cues) :], strict=True
                    ):
                        change = partial(changed_by, vector, strength)
                        stack.enter_context(oracle.changed(layers[layer], cue, change))
                    logits = oracle.logits(anatomy.model, own.ids)
                right, log_prob = score(logits, own.targets)
                assert bool(found.right[n, layer, column]) == right
                assert float(found.log_prob[n, layer, column]) == pytest.approx(log_prob, abs=1e-4)
    assert found.right.any() and not found.right.all()


def test_single_layers_of_the_loop_are_those_of_the_whole(
    llama: Anatomy, prompts: list[SweepPrompt], vectors: Tensor
) -> None:
    whole = layer_loop(llama, prompts, vectors, (1.0, 2.0))
    part = layer_loop(llama, prompts, vectors[:, [3, 1]], (1.0, 2.0), layers=[3, 1])
    torch.testing.assert_close(part.log_prob, whole.log_prob[:, [3, 1]])
    assert torch.equal(part.right, whole.right[:, [3, 1]])


def test_the_sweep_of_every_family_runs_in_one_pass(
    anatomy: Anatomy,
    prompts: list[SweepPrompt],
    vectors: Tensor,
    looped: SweepScores,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweep, "_flaws", {})
    with caplog.at_level(logging.WARNING, "harness_ext"):
        found = sweep_layers(anatomy, prompts, vectors)
    assert not caplog.records
    assert sweep._flaws == {anatomy.model: {(False, False): None}}
    torch.testing.assert_close(found.log_prob, looped.log_prob[..., :1], atol=1e-4, rtol=1e-5)


def fallen_back(
    anatomy: Anatomy,
    prompts: list[SweepPrompt],
    vectors: Tensor,
    caplog: pytest.LogCaptureFixture,
) -> str:
    """The one message of two sweeps in a row, which have to give what the loop gives."""
    expected = layer_loop(anatomy, prompts, vectors, (None, 2.0))
    with caplog.at_level(logging.WARNING, "harness_ext"):
        for _ in range(2):
            found = sweep_layers(anatomy, prompts, vectors, (None, 2.0))
            torch.testing.assert_close(found.log_prob, expected.log_prob)
            assert torch.equal(found.right, expected.right)
    (message,) = (r.getMessage() for r in caplog.records if r.name.startswith("harness_ext"))
    return str(message)


@pytest.mark.parametrize("family", RECURRENT, scope="module")
def test_recurrent_layers_fall_back_to_the_loop_and_the_log_says_so(
    family: str, prompts: list[SweepPrompt], vectors: Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    anatomy = dissect(tiny_model(family))
    message = fallen_back(anatomy, prompts[:2], vectors[:2], caplog)
    assert message.startswith(f"{type(anatomy.model).__name__}: layer sweeps run a forward per")
    assert "Error: " in message


def test_a_pass_that_gives_other_numbers_falls_back(
    prompts: list[SweepPrompt], vectors: Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    anatomy = dissect(tiny_model("llama"))

    def count_from_zero(_: Any, args: Any) -> Any:
        """Adds the position within the running forward, as if nothing were cached."""
        steps = torch.arange(args[0].shape[1])[None, :, None]
        return (args[0] + 0.3 * steps, *args[1:])

    anatomy.layers[2].register_forward_pre_hook(count_from_zero)
    exact = layer_loop(anatomy, prompts, vectors)
    inexact = one_pass(anatomy, prompts, vectors)
    assert (exact.log_prob - inexact.log_prob).abs().max() > 0.01
    assert "log-probabilities differ by" in fallen_back(anatomy, prompts, vectors, caplog)


def test_a_model_that_keeps_its_cache_elsewhere_falls_back(
    prompts: list[SweepPrompt], vectors: Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    anatomy = dissect(tiny_model("llama"))

    def without_cache(_: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, {**kwargs, anatomy.cache_argument: None}

    for layer in anatomy.layers:
        layer.register_forward_pre_hook(without_cache, with_kwargs=True)
    assert "KeyError" in fallen_back(anatomy, prompts, vectors, caplog)


def test_exactness_is_tried_once_for_each_model_and_kind_of_sweep(
    prompts: list[SweepPrompt], vectors: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[SweepScores] = []

    def counting(*args: Any, **kwargs: Any) -> SweepScores:
        loops.append(layer_loop(*args, **kwargs))
        return loops[-1]

    monkeypatch.setattr(sweep, "layer_loop", counting)
    for _ in range(2):
        anatomy = dissect(tiny_model("llama"))
        sweep_layers(anatomy, prompts, vectors)
        sweep_layers(anatomy, prompts[:1], vectors[:1])
    assert len(loops) == 2
    for strengths in ((None, 1.0), (2.0,)):
        sweep_layers(anatomy, prompts, vectors, strengths)
    assert len(loops) == 3


def test_a_model_in_low_precision_is_swept_in_one_pass(
    prompts: list[SweepPrompt], vectors: Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    anatomy = dissect(tiny_model("llama").to(torch.bfloat16))
    with caplog.at_level(logging.WARNING, "harness_ext"):
        found = sweep_layers(anatomy, prompts, vectors)
    assert not caplog.records
    expected = layer_loop(anatomy, prompts, vectors)
    torch.testing.assert_close(found.log_prob, expected.log_prob, atol=0.1, rtol=0.05)
