from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness_ext.steering import scoring
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.scoring import SweepPrompt, before_head, score_logits, score_states
from tests.models import VOCABULARY
from tests.steering.oracle import random_vectors, token_rows


def logits(*rows: list[float]) -> Tensor:
    """One kept position per row."""
    return torch.tensor(rows)[:, None]


def test_the_log_probability_is_that_of_any_right_token() -> None:
    found = score_logits(logits([1.0, 2.0, 3.0, 4.0]), [((1, 3),)])[1]
    odds = torch.tensor([1.0, 2.0, 3.0, 4.0]).exp()
    assert found.item() == pytest.approx(((odds[1] + odds[3]) / odds.sum()).log().item())


def test_log_probabilities_of_several_targets_add_up() -> None:
    both = torch.stack([torch.tensor([0.0, 1.0, 5.0]), torch.tensor([2.0, 0.0, 1.0])])[None]
    found = score_logits(both, [((1,), (0, 2))])[1]
    first = score_logits(both[:, :1], [((1,),)])[1]
    second = score_logits(both[:, 1:], [((0, 2),)])[1]
    torch.testing.assert_close(found, first + second)


def test_right_is_whether_the_most_likely_last_token_is_a_target() -> None:
    rows = logits([0.0, 3.0, 1.0], [0.0, 3.0, 1.0], [9.0, 3.0, 1.0])
    assert score_logits(rows, [((1, 2),), ((2,),), ((1,),)])[0].tolist() == [True, False, False]


def test_right_asks_for_every_target() -> None:
    rows = torch.tensor([[[0.0, 9.0]] * 2, [[9.0, 0.0], [0.0, 9.0]], [[0.0, 9.0], [9.0, 0.0]]])
    assert score_logits(rows, [((1,), (1,))] * 3)[0].tolist() == [True, False, False]


def test_of_equally_likely_tokens_the_first_is_the_prediction() -> None:
    rows = torch.tensor([[[5.0, 5.0, 0.0]]] * 3)
    targets = [((0,),), ((1,),), ((1, 0),)]
    assert score_logits(rows, targets)[0].tolist() == [True, False, True]


def test_the_last_positions_are_scored_where_a_model_gives_more() -> None:
    rows = random_vectors(3, 5, 30)
    targets = [((4, 5), (6,))] * 3
    found, expected = score_logits(rows, targets), score_logits(rows[:, -2:], targets)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


def test_a_state_that_is_not_a_number_is_not_right() -> None:
    rows = torch.full((1, 1, 4), torch.nan)
    assert score_logits(rows, [((1,),)])[0].tolist() == [False]


def test_target_lists_of_different_lengths_do_not_fill_up_with_real_ids() -> None:
    rows = logits([9.0, 0.0, 0.0, 1.0], [9.0, 0.0, 0.0, 1.0])
    right, log_prob = score_logits(rows, [((1, 2, 3),), ((3,),)])
    assert right.tolist() == [False, False]
    assert log_prob[1] == torch.log_softmax(rows[1, 0], 0)[3]


def test_low_precision_logits_are_reduced_in_float32() -> None:
    rows = random_vectors(3, 1, 50).bfloat16()
    found = score_logits(rows, [((4,),)] * 3)[1]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, rows.float().log_softmax(2)[:, 0, 4])


@pytest.mark.parametrize("n", [1, 15, 16, 17, 40])
def test_rows_are_scored_alike_in_slices_of_any_size(n: int) -> None:
    rows = random_vectors(n, 2, 30)
    targets = [((i % 30,), ((i + 7) % 30, 3)) for i in range(n)]
    right, log_prob = score_logits(rows, targets)
    for i in range(n):
        one = score_logits(rows[i : i + 1], targets[i : i + 1])
        assert (right[i], log_prob[i]) == (one[0][0], one[1][0])


def test_states_before_the_head_score_as_their_logits(
    llama: Anatomy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "SLICE_BYTES", 64 * 4 * VOCABULARY * 2)
    states = random_vectors(150, 2, 32)
    targets = [((i % VOCABULARY,), (3, 4)) for i in range(150)]
    with torch.no_grad():
        expected = score_logits(llama.model.get_output_embeddings()(states), targets)
    found = score_states(llama, states, targets)
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])


def test_the_states_before_the_head_are_noted_and_the_head_sees_one_row(llama: Anatomy) -> None:
    head = llama.model.get_output_embeddings()
    ids = torch.tensor(token_rows(6, 6, 6))
    plain = llama.model(input_ids=ids, logits_to_keep=2).logits
    with before_head(llama) as states:
        small = llama.model(input_ids=ids, logits_to_keep=2).logits
    assert small.shape == (1, 2, VOCABULARY)
    (noted,) = states
    torch.testing.assert_close(head(noted), plain)
    assert not head._forward_pre_hooks


def test_the_tail_of_a_prompt_begins_with_its_cue() -> None:
    assert SweepPrompt((1, 2, 3), (2,), ((4,),)).tail == 1
    assert SweepPrompt((1, 2, 3), (0, 2), ((4,),)).tail == 3
