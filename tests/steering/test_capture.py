from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
import torch

from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.capture import branched_states, last_states, reading, states_at
from tests.models import LAYERS, tiny_model
from tests.steering import oracle
from tests.steering.oracle import token_rows

ALL = range(LAYERS)
LENGTHS = (11, 3, 7, 11, 1, 9, 7)


def test_last_states_are_those_that_transformers_gives_out(anatomy: Anatomy) -> None:
    rows = token_rows(*LENGTHS)
    expected = torch.stack([oracle.states(anatomy.model, row) for row in rows])
    # 24 padded tokens: batches of 2, 2 (of unequal length), 3 rows
    torch.testing.assert_close(
        last_states(anatomy, rows, ALL, budget=24), expected, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("budget", [1, 22, 30, 4096])
def test_states_do_not_depend_on_the_batches(llama: Anatomy, budget: int) -> None:
    rows = token_rows(*LENGTHS)
    alone = torch.cat([last_states(llama, [row], ALL) for row in rows])
    torch.testing.assert_close(last_states(llama, rows, ALL, budget=budget), alone)


def test_states_stand_in_the_order_of_the_rows_and_of_the_layers(llama: Anatomy) -> None:
    rows = token_rows(*LENGTHS)
    found = last_states(llama, rows, [3, 0, 2])
    torch.testing.assert_close(found, last_states(llama, rows, ALL)[:, [3, 0, 2]])


def test_states_at_several_tokens_are_those_of_the_rows_cut_there(anatomy: Anatomy) -> None:
    rows = token_rows(9, 12, 9)
    places = [(0, 5, 8), (2, 3, 11), (1, 6, 7)]
    found = states_at(anatomy, rows, places, ALL)
    assert found.shape == (3, LAYERS, 3, 32)
    for n, (row, own) in enumerate(zip(rows, places, strict=True)):
        for k, place in enumerate(own):
            expected = oracle.states(anatomy.model, row[: place + 1])
            torch.testing.assert_close(found[n, :, k], expected, atol=1e-5, rtol=1e-5)


def test_no_rows_have_no_states(llama: Anatomy) -> None:
    assert last_states(llama, [], [1, 2]).shape == (0, 2, 32)


def count_calls(anatomy: Anatomy) -> Counter[int]:
    """Fills with calls per layer, and under -1 those of the output embedding."""
    calls: Counter[int] = Counter()

    def note(key: int) -> Any:
        return lambda *_: calls.update([key])

    for number, layer in enumerate(anatomy.layers):
        layer.register_forward_hook(note(number))
    anatomy.model.get_output_embeddings().register_forward_hook(note(-1))
    return calls


def test_a_forward_ends_after_the_last_layer_asked_for_and_never_reaches_the_logits() -> None:
    anatomy = dissect(tiny_model("llama"))
    calls = count_calls(anatomy)
    last_states(anatomy, token_rows(5, 5), [1, 0])
    assert calls == {0: 1, 1: 1}
    calls.clear()
    last_states(anatomy, token_rows(5, 5), ALL)
    assert calls == {0: 1, 1: 1, 2: 1, 3: 1}


def test_only_the_states_asked_for_are_kept(llama: Anatomy) -> None:
    found = last_states(llama, token_rows(50, 60, 40), [0, 2])
    assert found.untyped_storage().nbytes() == 3 * 2 * 32 * 4
    with reading(llama, [0, 2], torch.tensor([[49]])) as read:
        llama.model(input_ids=torch.tensor(token_rows(50)))
    assert [state.untyped_storage().nbytes() for state in read.values()] == [32 * 4] * 2


def test_progress_counts_every_row_once(llama: Anatomy) -> None:
    steps: list[int] = []
    last_states(llama, token_rows(*LENGTHS), [0], steps.append, budget=22)
    assert sum(steps) == len(LENGTHS)
    assert len(steps) > 1
    steps.clear()
    branched_states(llama, token_rows(4, 4, 6), [token_rows(2, 3)] * 3, [0], steps.append)
    assert sum(steps) == 3


def test_reading_leaves_no_hook_behind_even_after_an_exception(llama: Anatomy) -> None:
    # transformers leaves hooks of its own on a model that was asked for attention weights.
    before = [set(layer._forward_hooks) for layer in llama.layers]
    with (
        pytest.raises(IndexError),
        reading(llama, [0, 3], torch.tensor([[2]])),
    ):
        llama.model(input_ids=torch.tensor(token_rows(2)))  # has no position 2
    with reading(llama, [0, 3], torch.tensor([[1]])):
        llama.model(input_ids=torch.tensor(token_rows(2)))
    assert [set(layer._forward_hooks) for layer in llama.layers] == before


STEMS = token_rows(6, 9, 6, 1, 9, seed=2)
BRANCHES = [token_rows(3, 1, 5, seed=10 + i) for i in range(len(STEMS))]


def test_branched_states_are_the_last_states_of_the_whole_rows(anatomy: Anatomy) -> None:
    whole = [stem + branch for stem, own in zip(STEMS, BRANCHES, strict=True) for branch in own]
    expected = last_states(anatomy, whole, ALL).unflatten(0, (len(STEMS), 3))
    found = branched_states(anatomy, STEMS, BRANCHES, ALL)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("budget", [1, 25, 50])
def test_branched_states_do_not_depend_on_the_batches(llama: Anatomy, budget: int) -> None:
    found = branched_states(llama, STEMS, BRANCHES, ALL, budget=budget)
    torch.testing.assert_close(found, branched_states(llama, STEMS, BRANCHES, ALL))


def test_a_stem_runs_once_however_many_branches_it_has() -> None:
    anatomy = dissect(tiny_model("llama"))
    branched_states(anatomy, STEMS, BRANCHES, [0])  # the check that precedes the first use
    tokens: list[int] = []
    anatomy.layers[0].register_forward_hook(
        lambda _, __, output: tokens.append(output.shape[0] * output.shape[1])
    )
    stem, branches = token_rows(40)[0], token_rows(2, 2, 2, 2)
    branched_states(anatomy, [stem], [branches], [0])
    assert sum(tokens) == 40 + 4 * 2


def test_empty_stems_are_allowed(llama: Anatomy) -> None:
    found = branched_states(llama, [[], []], [token_rows(3, 4), token_rows(2, 5)], ALL)
    expected = last_states(llama, [*token_rows(3, 4), *token_rows(2, 5)], ALL)
    torch.testing.assert_close(found.flatten(0, 1), expected)


def test_a_cache_that_cannot_be_shared_is_noticed_and_whole_rows_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    anatomy = dissect(tiny_model("qwen3_next"))
    expected = torch.stack(
        [
            torch.stack([oracle.states(anatomy.model, stem + branch) for branch in own])
            for stem, own in zip(STEMS, BRANCHES, strict=True)
        ]
    )
    with caplog.at_level(logging.WARNING, "harness_ext"):
        for _ in range(2):
            found = branched_states(anatomy, STEMS, BRANCHES, ALL)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    (message,) = (r.getMessage() for r in caplog.records if r.name.startswith("harness_ext"))
    assert message.startswith("Qwen3NextForCausalLM: several dummy queries run a whole prompt each")
    assert "LinearAttentionLayer" in message


def test_a_cache_that_gives_other_states_is_noticed_too(caplog: pytest.LogCaptureFixture) -> None:
    anatomy = dissect(tiny_model("llama"))

    def count_from_zero(_: Any, args: Any) -> Any:
        """Adds the position within the running forward, as if nothing were cached."""
        steps = torch.arange(args[0].shape[1])[None, :, None]
        return (args[0] + steps, *args[1:])

    anatomy.layers[2].register_forward_pre_hook(count_from_zero)
    whole = [stem + branch for stem, own in zip(STEMS, BRANCHES, strict=True) for branch in own]
    with caplog.at_level(logging.WARNING, "harness_ext"):
        found = branched_states(anatomy, STEMS, BRANCHES, ALL)
    torch.testing.assert_close(found.flatten(0, 1), last_states(anatomy, whole, ALL))
    assert "states differ by" in caplog.text
