from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.heads.select import Head, matched_heads, top_heads


def scores(layers: int, heads: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(layers, heads, generator=torch.Generator().manual_seed(seed))


# ---- top heads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "heads", "fraction", "count"),
    [
        (30, 9, 0.03, 8),  # 8.1
        (18, 4, 0.03, 2),  # 2.16
        (18, 4, 0.05, 4),  # 3.6
        (4, 4, 0.03, 1),  # 0.48: one at least
        (4, 4, 1, 16),
        (4, 4, 0.5, 8),
    ],
)
def test_so_many_heads_are_taken_as_the_fraction_says(
    layers: int, heads: int, fraction: float, count: int
) -> None:
    assert len(top_heads(scores(layers, heads), fraction)) == count


def test_the_best_come_first() -> None:
    table = scores(5, 7)
    found = top_heads(table, 0.4)
    values = [float(table[head]) for head in found]
    assert values == sorted(table.flatten().tolist(), reverse=True)[:14]
    assert all(type(part) is int for head in found for part in head)


def test_of_equal_scores_the_earlier_layer_and_head_come_first() -> None:
    table = torch.tensor([[0.0, 2.0, 1.0], [1.0, 2.0, 0.0], [2.0, 1.0, 1.0]])
    expected = [(0, 1), (1, 1), (2, 0), (0, 2), (1, 0), (2, 1), (2, 2), (0, 0), (1, 2)]
    for count in range(1, 10):
        assert top_heads(table, count / 9) == expected[:count]
    assert top_heads(torch.zeros(40, 40), 0.1) == [divmod(n, 40) for n in range(160)]


@pytest.mark.parametrize("fraction", [0, -0.1, 1.01, 3, float("nan")])
def test_a_fraction_outside_its_range_is_refused(fraction: float) -> None:
    with pytest.raises(UsageError, match=f"head_fraction={fraction}: .* at most 1"):
        top_heads(scores(3, 4), fraction)


# ---- matched heads ------------------------------------------------------------------------------


def per_layer(heads: list[Head]) -> Counter[int]:
    return Counter(layer for layer, _ in heads)


@pytest.mark.parametrize("seed", [0, 1, 7, "classify_topic 2"])
def test_random_heads_are_other_heads_as_many_in_each_layer(seed: int | str) -> None:
    like = top_heads(scores(6, 8), 0.25)
    found = matched_heads(like, 6, 8, seed)
    assert per_layer(found) == per_layer(like)
    assert not set(found) & set(like)
    assert len(set(found)) == len(found) == 12
    assert found == sorted(found)


def test_random_heads_follow_from_the_seed_alone() -> None:
    like = top_heads(scores(6, 8), 0.25)
    draws = {tuple(matched_heads(like, 6, 8, seed)) for seed in range(20)}
    assert len(draws) > 15
    assert matched_heads(like, 6, 8, "a") == matched_heads(like[::-1], 6, 8, "a")
    assert matched_heads(like, 6, 8, "a") != matched_heads(like, 6, 8, "b")


def test_every_other_head_of_a_layer_is_drawn_as_often() -> None:
    drawn = Counter(
        head for seed in range(2000) for head in matched_heads([(1, 2), (1, 0)], 3, 6, seed)
    )
    assert set(drawn) == {(1, 1), (1, 3), (1, 4), (1, 5)}
    assert all(900 < count < 1100 for count in drawn.values())


def test_what_a_layer_lacks_the_nearest_layers_give() -> None:
    # Layer 2 has one head left for three, and layer 1 needs its last two itself.
    like = [(2, 0), (2, 1), (2, 2), (1, 0), (1, 1)]
    found = matched_heads(like, 5, 4, 0)
    assert per_layer(found) == {1: 2, 2: 1, 3: 2}
    assert not set(found) & set(like)
    # Of two layers as near the earlier gives.
    assert per_layer(matched_heads([(2, 0), (2, 1), (2, 2)], 5, 4, 0)) == {2: 1, 1: 2}
    # At the edge, all from one side, further and further.
    whole = [(0, 0), (0, 1), (1, 0)]
    assert per_layer(matched_heads(whole, 4, 2, 0)) == {1: 1, 2: 2}


def test_a_layer_keeps_its_own_share_before_it_gives_to_others() -> None:
    like = [(0, 0), (0, 1), (1, 0)]
    for seed in range(10):
        found = matched_heads(like, 3, 2, seed)
        assert per_layer(found) == {1: 1, 2: 2}


def test_half_of_all_heads_are_matched_by_the_other_half() -> None:
    every = [(layer, head) for layer in range(4) for head in range(4)]
    for seed in range(5):
        like = random.Random(seed).sample(every, 8)
        assert matched_heads(like, 4, 4, seed) == sorted(set(every) - set(like))


def test_more_than_half_cannot_be_matched() -> None:
    like = top_heads(scores(4, 4), 9 / 16)
    with pytest.raises(UsageError, match=r"9 random heads .* the 7 heads that remain of 16.*0\.5"):
        matched_heads(like, 4, 4, 0)
