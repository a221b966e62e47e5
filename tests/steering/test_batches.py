from __future__ import annotations

import pytest
import torch

from harness_ext.steering.batches import by_length, of_equal_shape, pad_right

LENGTHS = [3, 9, 1, 9, 4, 20, 2, 8, 3]


@pytest.mark.parametrize("budget", [1, 10, 18, 27, 1000])
def test_every_row_stands_in_one_batch_and_batches_keep_to_the_budget(budget: int) -> None:
    batches = list(by_length(LENGTHS, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(LENGTHS)))
    for batch in batches:
        padded = len(batch) * max(LENGTHS[i] for i in batch)
        assert padded <= budget or len(batch) == 1


def test_a_batch_is_as_large_as_the_budget_allows() -> None:
    assert [len(batch) for batch in by_length([5] * 7, 15)] == [3, 3, 1]


def test_the_longest_rows_come_first() -> None:
    order = [LENGTHS[i] for batch in by_length(LENGTHS, 18) for i in batch]
    assert order == sorted(LENGTHS, reverse=True)


def test_no_rows_make_no_batches() -> None:
    assert list(by_length([])) == []
    assert list(of_equal_shape([], [])) == []


def test_batches_of_equal_shape_never_mix_shapes_and_keep_to_the_budget() -> None:
    shapes = ["a", "b", "a", "b", "a", "c", "a", "b", "a"]
    batches = list(of_equal_shape(LENGTHS, shapes, 18))
    assert sorted(i for batch in batches for i in batch) == list(range(len(LENGTHS)))
    for batch in batches:
        assert len({shapes[i] for i in batch}) == 1
        assert len(batch) * max(LENGTHS[i] for i in batch) <= 18 or len(batch) == 1


def test_padding_on_the_right_keeps_the_rows_and_fills_with_zeros() -> None:
    padded = pad_right([[5, 6, 7], [8], [9, 0]], torch.device("cpu"))
    assert padded.tolist() == [[5, 6, 7], [8, 0, 0], [9, 0, 0]]
    assert padded.dtype == torch.long
