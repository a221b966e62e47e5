"""What heads explain of a vector, in cases whose answer is known."""

from __future__ import annotations

import pytest
import torch

from harness_ext.analysis.explained import (
    Explained,
    Geometry,
    explained,
    geometry,
    mean_explained,
)
from harness_ext.heads.tsla import LabelSet

LAYERS, HEADS, WIDTH = 3, 2, 8
OUTPUTS = torch.randn(LAYERS, HEADS, WIDTH, generator=torch.Generator().manual_seed(0))
CHOSEN = [(1, 0), (0, 1), (2, 1)]


def test_a_vector_that_is_the_sum_of_the_heads_up_to_its_layer_is_explained_wholly() -> None:
    steps = [OUTPUTS[0, 1], OUTPUTS[1, 0], OUTPUTS[2, 1]]
    vectors = torch.stack([sum(steps[: layer + 1], torch.zeros(WIDTH)) for layer in range(LAYERS)])
    found = explained(vectors, OUTPUTS, CHOSEN)
    for values in (found.cosine, found.share, found.span):
        assert values == pytest.approx([1, 1, 1])


def test_a_vector_across_the_heads_is_explained_not_at_all() -> None:
    vectors = torch.zeros(LAYERS, WIDTH)
    vectors[:, 0] = 1
    outputs = OUTPUTS.clone()
    outputs[..., 0] = 0
    found = explained(vectors, outputs, CHOSEN)
    for values in (found.cosine, found.share, found.span):
        assert values == pytest.approx([0, 0, 0], abs=1e-12)


def test_other_weights_on_the_heads_are_in_their_span_but_not_on_their_sum() -> None:
    outputs = torch.eye(4).reshape(2, 2, 4)
    vectors = torch.tensor([[3.0, 1.0, 0.0, 0.0], [3.0, 1.0, 0.0, 0.0]])
    found = explained(vectors, outputs, [(0, 0), (0, 1)])
    cosine = 4 / (10**0.5 * 2**0.5)
    assert found.cosine == pytest.approx([cosine, cosine])
    assert found.share == pytest.approx([16 / 20, 16 / 20])
    assert found.span == pytest.approx([1, 1])


def test_nothing_is_said_before_the_first_head_nor_of_no_vector() -> None:
    vectors = OUTPUTS[:, 0].clone()
    vectors[2] = 0
    found = explained(vectors, OUTPUTS, [(1, 0)])
    assert found.cosine == (None, pytest.approx(1), None)
    assert found.share[0] is None and found.span[2] is None


def test_means_go_layer_by_layer_over_what_there_is() -> None:
    one = Explained((None, 0.2), (None, 0.04), (None, 0.5))
    other = Explained((0.1, 0.4), (0.01, 0.16), (None, 0.7))
    found = mean_explained([one, other])
    assert found.cosine == (0.1, pytest.approx(0.3))
    assert found.share == (0.01, pytest.approx(0.1))
    assert found.span == (None, pytest.approx(0.6))


def test_geometry_is_the_angle_to_the_labels_and_the_lead_of_the_right_one() -> None:
    unembedding = torch.eye(4)
    labels = [LabelSet(("a", "b"), (0, 1)), LabelSet(("c", "a", "b"), (2, 0, 1))]
    states = torch.tensor([[3.0, 0.0, 0.0, 4.0], [1.0, 3.0, 5.0, 0.0]])
    found = geometry(states, labels, unembedding)
    assert found == Geometry(pytest.approx((0.6 + 1) / 2), pytest.approx((3 + 3) / 2))


def test_a_prompt_with_one_label_token_has_no_lead() -> None:
    labels = [LabelSet(("a", "b"), (0, 1)), LabelSet(("c",), (2,))]
    found = geometry(torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 9.0]]), labels, torch.eye(3))
    assert found.lead == pytest.approx(1)
