from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.capture import last_states
from harness_ext.steering.inject import Edit, Injection, inject
from tests.models import LAYERS, tiny_model
from tests.steering import oracle
from tests.steering.oracle import LEFT, RIGHT, generated, padded, random_vectors, token_rows

ALL = range(LAYERS)
VECTORS = random_vectors(LAYERS, 32)
# Rows of mixed lengths, the position of each one's cue, and the layer steered there.
ROWS = token_rows(11, 4, 8, 6, 9)
CUES = [10, 2, 5, 0, 7]
WHERE = [2, 0, 3, 1, 2]


def replacing(vector: Tensor) -> oracle.Change:
    return lambda _: vector


def adding(vector: Tensor, strength: float) -> oracle.Change:
    return lambda state: state + strength * vector


def logits_of(anatomy: Anatomy, ids: list[int]) -> Tensor:
    with torch.no_grad():
        return anatomy.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def test_replacing_a_state_by_itself_changes_nothing_at_any_layer(anatomy: Anatomy) -> None:
    (row,) = token_rows(9, seed=3)
    plain = logits_of(anatomy, row)
    own = last_states(anatomy, [row], ALL)[0]
    for layer in ALL:
        with inject(anatomy, [Edit(0, 8, Injection(layer, own[layer]))], 1):
            torch.testing.assert_close(logits_of(anatomy, row), plain, atol=1e-5, rtol=1e-5)


def test_a_state_read_after_an_injection_is_the_injected_vector(anatomy: Anatomy) -> None:
    (row,) = token_rows(9, seed=3)
    for layer in ALL:
        with inject(anatomy, [Edit(0, 8, Injection(layer, VECTORS[layer]))], 1):
            found = last_states(anatomy, [row], [layer])
        assert torch.equal(found[0, 0], VECTORS[layer])


def test_an_injection_is_the_change_of_that_state_and_leaves_earlier_positions_alone(
    anatomy: Anatomy, family: str
) -> None:
    (row,) = token_rows(9, seed=4)
    plain = oracle.logits(anatomy.model, row)
    layers = oracle.decoder_layers(family, anatomy.model)
    for layer in ALL:
        for strength, change in (
            (None, replacing(VECTORS[layer])),
            (1.5, adding(VECTORS[layer], 1.5)),
        ):
            with inject(anatomy, [Edit(0, 5, Injection(layer, VECTORS[layer], strength))], 1):
                found = logits_of(anatomy, row)
            expected = oracle.changed_logits(anatomy.model, layers[layer], row, 5, change)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(found[:5], plain[:5], atol=1e-5, rtol=1e-5)
            assert (found[5] - plain[5]).abs().max() > 0.01


def test_earlier_positions_keep_their_logits_to_the_last_bit(llama: Anatomy) -> None:
    (row,) = token_rows(9)
    with inject(llama, [Edit(0, 5, Injection(0, VECTORS[0]))], 1):
        found = logits_of(llama, row)
    assert torch.equal(found[:5], logits_of(llama, row)[:5])


def test_adding_a_vector_with_strength_zero_changes_no_bit(anatomy: Anatomy) -> None:
    (row,) = token_rows(9)
    plain = logits_of(anatomy, row)
    edits = [Edit(0, 8, Injection(layer, VECTORS[layer], 0.0)) for layer in ALL]
    with inject(anatomy, edits, 1):
        assert torch.equal(logits_of(anatomy, row), plain)


def test_strength_multiplies_the_vector_and_none_replaces_the_state() -> None:
    state, vector = torch.tensor([1.0, 2.0]), torch.tensor([10.0, -10.0])
    assert Injection(0, vector).apply(state).tolist() == [10.0, -10.0]
    assert Injection(0, vector, 0.5).apply(state).tolist() == [6.0, -3.0]
    assert Injection(0, vector, 0.5).apply(state.expand(3, 2)).tolist() == [[6.0, -3.0]] * 3


def test_a_vector_takes_the_dtype_of_the_state() -> None:
    state = torch.ones(2, dtype=torch.bfloat16)
    for strength in (None, 2.0):
        assert Injection(0, torch.ones(2), strength).apply(state).dtype == torch.bfloat16


@pytest.fixture(scope="session")
def singles(anatomy: Anatomy, family: str) -> list[Tensor]:
    """Logits of every row run alone, its state replaced."""
    layers = oracle.decoder_layers(family, anatomy.model)
    return [
        oracle.changed_logits(anatomy.model, layers[layer], row, cue, replacing(VECTORS[layer]))
        for row, cue, layer in zip(ROWS, CUES, WHERE, strict=True)
    ]


@pytest.mark.parametrize(
    ("side", "size"), [(RIGHT, 1), (RIGHT, 3), (RIGHT, 5), (LEFT, 3), (LEFT, 5)]
)
def test_a_padded_batch_gives_what_single_rows_give(
    anatomy: Anatomy, singles: list[Tensor], side: str, size: int
) -> None:
    for first in range(0, len(ROWS), size):
        part = range(first, min(first + size, len(ROWS)))
        ids, mask, shifts = padded([ROWS[i] for i in part], side)
        edits = [
            Edit(n, CUES[i] + shifts[n], Injection(WHERE[i], VECTORS[WHERE[i]]))
            for n, i in enumerate(part)
        ]
        with inject(anatomy, edits, len(part)):
            found = oracle.padded_logits(anatomy.model, ids, mask)
        for n, i in enumerate(part):
            own = found[n, shifts[n] : shifts[n] + len(ROWS[i])]
            torch.testing.assert_close(own, singles[i], atol=1e-4, rtol=1e-4)


def test_generation_applies_an_injection_once_at_its_place_in_the_prompt(
    anatomy: Anatomy, family: str
) -> None:
    layers = oracle.decoder_layers(family, anatomy.model)
    rows = ROWS[:3]
    _, __, shifts = padded(rows, LEFT)
    edits = [
        Edit(n, CUES[n] + shifts[n], Injection(WHERE[n], VECTORS[WHERE[n]], strength))
        for n, strength in enumerate((None, 2.0, None))
    ]
    with inject(anatomy, edits, len(rows)):
        cached = generated(anatomy.model, rows)
    for n, row in enumerate(rows):
        vector = VECTORS[WHERE[n]]
        change = adding(vector, 2.0) if n % 2 else replacing(vector)
        expected = oracle.greedy(anatomy.model, layers[WHERE[n]], row, CUES[n], change, 5)
        assert cached[n] == expected


def test_generation_from_a_cue_that_is_the_first_token_applies_it_once(llama: Anatomy) -> None:
    row = ROWS[3]
    with inject(llama, [Edit(0, 0, Injection(1, VECTORS[1]))], 1):
        (cached,) = generated(llama.model, [row])
    change = replacing(VECTORS[1])
    assert cached == oracle.greedy(llama.model, llama.layers[1], row, 0, change, 5)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "bloom"])
def test_an_injection_falls_into_the_part_of_a_prompt_that_holds_its_position(family: str) -> None:
    anatomy = dissect(tiny_model(family))
    layer = oracle.decoder_layers(family, anatomy.model)[1]
    (row,) = token_rows(9)
    for position in range(9):
        cache = DynamicCache(config=anatomy.model.config)
        given = {"use_cache": True, anatomy.cache_argument: cache}
        with torch.no_grad(), inject(anatomy, [Edit(0, position, Injection(1, VECTORS[1]))], 1):
            parts = [
                anatomy.model(input_ids=torch.tensor([part]), **given).logits[0]
                for part in (row[:4], row[4:6], row[6:])
            ]
        expected = oracle.changed_logits(anatomy.model, layer, row, position, replacing(VECTORS[1]))
        torch.testing.assert_close(torch.cat(parts), expected, atol=1e-5, rtol=1e-5)


def test_a_state_that_someone_else_has_read_stays_as_it_was() -> None:
    anatomy = dissect(tiny_model("llama"))
    (row,) = token_rows(9)
    seen: list[Tensor] = []
    anatomy.layers[1].register_forward_hook(lambda _, __, output: seen.append(output))
    plain = last_states(anatomy, [row], [1])[0, 0]
    with inject(anatomy, [Edit(0, 8, Injection(1, VECTORS[1]))], 1):
        logits_of(anatomy, row)
    torch.testing.assert_close(seen[-1][0, 8], plain)


def test_beams_of_a_row_all_carry_its_injection(llama: Anatomy) -> None:
    rows, cues = [ROWS[0], ROWS[2]], [10, 5]
    _, __, shifts = padded(rows, LEFT)
    edits = [Edit(n, cues[n] + shifts[n], Injection(1, VECTORS[n])) for n in range(2)]
    beams = {"num_beams": 3, "num_return_sequences": 3}
    with inject(llama, edits, 2):
        cached = generated(llama.model, rows, **beams)
        uncached = generated(llama.model, rows, **beams, use_cache=False)
    alone = []
    for n, row in enumerate(rows):
        with inject(llama, [Edit(0, cues[n], Injection(1, VECTORS[n]))], 1):
            alone += generated(llama.model, [row], **beams)
    assert cached == uncached == alone
    assert cached != generated(llama.model, rows, **beams)


def test_two_edits_of_one_row_both_hold(llama: Anatomy) -> None:
    (row,) = token_rows(9)
    edits = [Edit(0, 3, Injection(1, VECTORS[0])), Edit(0, 6, Injection(2, VECTORS[1]))]
    with inject(llama, edits, 1):
        found = logits_of(llama, row)
    with oracle.changed(llama.layers[1], 3, replacing(VECTORS[0])):
        expected = oracle.changed_logits(
            llama.model, llama.layers[2], row, 6, replacing(VECTORS[1])
        )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_are_gone_afterwards_also_after_an_exception(fails: bool) -> None:
    anatomy = dissect(tiny_model("llama"))
    (row,) = token_rows(9)
    plain = logits_of(anatomy, row)
    with (
        pytest.raises(KeyboardInterrupt) if fails else nullcontext(),
        inject(anatomy, [Edit(0, 8, Injection(n, VECTORS[n])) for n in ALL], 1),
    ):
        assert not torch.equal(logits_of(anatomy, row), plain)
        if fails:
            raise KeyboardInterrupt
    assert torch.equal(logits_of(anatomy, row), plain)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in anatomy.model.modules())


def test_a_batch_that_nobody_planned_is_refused(llama: Anatomy) -> None:
    with (
        inject(llama, [Edit(0, 1, Injection(0, VECTORS[0]))], 2),
        pytest.raises(RuntimeError, match="planned for 2 rows, but the model runs 3"),
    ):
        llama.model(input_ids=torch.tensor(token_rows(4, 4, 4)))


def test_no_edits_change_nothing(llama: Anatomy) -> None:
    (row,) = token_rows(9)
    with inject(llama, [], 1):
        assert torch.equal(logits_of(llama, row), oracle.logits(llama.model, row))
