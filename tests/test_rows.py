from __future__ import annotations

import random

import pytest
import torch

from harness_ext.heads.ablate import Ablation
from harness_ext.rows import RowPlan, Wave, waves
from harness_ext.steering.inject import Injection

A, B = Injection(0, torch.ones(2)), Injection(0, torch.ones(2))


def plan(ids: tuple[int, ...], position: int = 0, injection: Injection = A) -> RowPlan:
    return RowPlan(ids, ((position, injection),))


def found(wave: Wave, ids: list[list[int]], mask: list[list[int]] | None = None) -> list[object]:
    edits = wave.edits(torch.tensor(ids), None if mask is None else torch.tensor(mask))
    return [(edit.row, edit.position, edit.injection) for edit in edits]


def test_rows_that_differ_run_together() -> None:
    (wave,) = waves([plan((1, 2)), plan((1, 3), injection=B), plan((1, 2, 3))])
    assert wave.requests == [0, 1, 2]


def test_equal_rows_with_the_same_injection_run_together() -> None:
    (wave,) = waves([plan((1, 2)), plan((1, 2)), plan((1, 2))])
    assert wave.requests == [0, 1, 2]


@pytest.mark.parametrize(
    "other",
    [
        plan((1, 2), injection=B),
        plan((1, 2), position=1),
        RowPlan((1, 2), ()),
        RowPlan((1, 2), ((0, A), (1, A))),
        plan((1, 2, 0), injection=B),  # not told from a padded row
    ],
    ids=["another vector", "another place", "none", "one more", "a zero at the end"],
)
def test_equal_rows_with_different_injections_never_share_a_wave(other: RowPlan) -> None:
    first, second = waves([plan((1, 2)), other])
    assert (first.requests, second.requests) == ([0], [1])


def test_equal_vectors_of_different_origin_count_as_different() -> None:
    assert torch.equal(A.vector, B.vector)
    assert len(waves([plan((1, 2)), plan((1, 2), injection=B)])) == 2


def test_random_requests_are_all_answered_once_each_in_a_wave_that_knows_their_vector() -> None:
    draw = random.Random(0)
    injections = [Injection(0, torch.ones(1) * n) for n in range(4)]
    plans = [
        plan((draw.randrange(3), draw.randrange(2)), draw.randrange(2), draw.choice(injections))
        for _ in range(200)
    ]
    made = waves(plans)
    assert sorted(number for wave in made for number in wave.requests) == list(range(200))
    for wave in made:
        assert wave.requests == sorted(wave.requests)
        for number in wave.requests:
            ((position, injection),) = plans[number].edits
            (edit,) = wave.edits(torch.tensor([plans[number].ids]))
            assert (edit.position, edit.injection) == (position, injection)
    alike = [len({p.edits for p in plans if p.key == key}) for key in {p.key for p in plans}]
    assert len(made) == max(alike)


def test_no_requests_make_no_waves() -> None:
    assert waves([]) == []


WAVE = waves([plan((5, 6, 7), 1, A), plan((8, 9), 1, B), plan((8, 9, 0), 2, B)])[0]


def test_edits_of_rows_padded_on_the_right_keep_their_place() -> None:
    assert found(WAVE, [[8, 9, 0, 0], [5, 6, 7, 0]]) == [(0, 1, B), (1, 1, A)]


def test_edits_of_rows_padded_on_the_left_move_along() -> None:
    ids = [[3, 3, 8, 9], [3, 5, 6, 7]]
    mask = [[0, 0, 1, 1], [0, 1, 1, 1]]
    assert found(WAVE, ids, mask) == [(0, 3, B), (1, 2, A)]


def test_a_real_zero_at_the_end_is_found_with_and_without_padding() -> None:
    (wave,) = waves([plan((8, 0), 1, B)])
    assert found(wave, [[8, 0]]) == [(0, 1, B)]
    assert found(wave, [[8, 0, 0, 0]]) == [(0, 1, B)]
    assert found(wave, [[0, 8, 0]], [[0, 1, 1]]) == [(0, 2, B)]


def test_zeros_on_the_left_and_in_the_middle_are_real() -> None:
    (wave,) = waves([plan((0, 0, 4), 2, A), plan((0, 4), 1, B), plan((4,), 0, B)])
    assert found(wave, [[0, 0, 4], [0, 4, 0], [4, 0, 0]]) == [(0, 2, A), (1, 1, B), (2, 0, B)]
    assert found(wave, [[0, 0, 4], [0, 0, 4]], [[1, 1, 1], [0, 1, 1]]) == [(0, 2, A), (1, 2, B)]


def test_a_row_of_zeros_alone_can_be_planned() -> None:
    (wave,) = waves([plan((0,), 0, A)])
    assert found(wave, [[0, 0]]) == [(0, 0, A)]


def test_a_row_with_no_injection_runs_plain() -> None:
    (wave,) = waves([RowPlan((1, 2), ())])
    assert found(wave, [[1, 2]]) == []


@pytest.mark.parametrize("row", [[5, 6], [5, 6, 8], [1, 5, 6, 7], [5, 6, 7, 7]])
def test_a_row_that_nobody_planned_is_refused(row: list[int]) -> None:
    with pytest.raises(RuntimeError, match="that no request planned"):
        found(WAVE, [row])


def test_a_row_planned_for_another_wave_is_refused() -> None:
    first, second = waves([plan((1, 2)), plan((1, 2), injection=B), plan((3, 4))])
    assert found(first, [[3, 4]])
    with pytest.raises(RuntimeError, match="no request planned"):
        found(second, [[3, 4]])


def test_rows_without_different_heads_never_share_a_wave() -> None:
    one, two = Ablation(torch.ones(1, 2) > 0), Ablation(torch.ones(1, 2) > 0)
    without = [one, two, None, one, None]
    made = waves([RowPlan((1, n), (), (1,), ablation) for n, ablation in enumerate(without)])
    assert [wave.requests for wave in made] == [[0, 3], [1], [2, 4]]
    assert [wave.ablation for wave in made] == [one, two, None]


def test_equal_rows_without_the_same_heads_at_different_cues_never_share_a_wave() -> None:
    ablation = Ablation(torch.ones(1, 2) > 0)
    first, second = waves([RowPlan((1, 2), (), (place,), ablation) for place in (0, 1)])
    assert (first.requests, second.requests) == ([0], [1])


def test_cues_are_found_in_rows_padded_on_either_side() -> None:
    (wave,) = waves([RowPlan((5, 6, 7), (), (0, 2)), RowPlan((8, 9), (), (1,))])
    assert wave.cues(torch.tensor([[8, 9, 0], [5, 6, 7]])) == [(0, 1), (1, 0), (1, 2)]
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
    assert wave.cues(torch.tensor([[3, 8, 9], [5, 6, 7]]), mask) == [(0, 2), (1, 0), (1, 2)]
    with pytest.raises(RuntimeError, match="no request planned"):
        wave.cues(torch.tensor([[1, 2, 3]]))
