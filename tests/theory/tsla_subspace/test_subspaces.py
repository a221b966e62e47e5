"""Random subspaces against closed forms and direct constructions."""

from __future__ import annotations

import math

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.tsla_subspace.subspaces import (
    aligned_vectors,
    common_vectors,
    decay_rate,
    exceeding_probability,
    project,
    shares,
    sharing_subspaces,
    uniform_subspaces,
)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_shares_agree_with_the_projector_of_any_basis(generator: torch.Generator) -> None:
    labels = torch.randn(7, 12, 3, generator=generator, dtype=torch.float64)
    vectors = torch.randn(7, 12, generator=generator, dtype=torch.float64)
    projector = labels @ torch.linalg.inv(labels.mT @ labels) @ labels.mT
    projected = (projector @ vectors[..., None])[..., 0]
    basis = torch.linalg.qr(labels).Q
    torch.testing.assert_close(project(vectors, basis), projected)
    expected = projected.norm(dim=-1) ** 2 / vectors.norm(dim=-1) ** 2
    torch.testing.assert_close(shares(vectors, basis), expected)


def test_aligned_vectors_have_unit_norm_and_the_given_share(generator: torch.Generator) -> None:
    basis = uniform_subspaces(20, 10, 3, generator)
    vectors = aligned_vectors(basis, 0.3, generator)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(20, dtype=torch.float64))
    torch.testing.assert_close(shares(vectors, basis), torch.full((20,), 0.3, dtype=torch.float64))


@pytest.mark.parametrize(("dimension", "size", "share"), [(8, 4, 0.3), (12, 3, 0.4), (9, 1, 0.1)])
def test_the_closed_form_is_the_rate_of_uniform_subspaces(
    generator: torch.Generator, dimension: int, size: int, share: float
) -> None:
    vector = torch.randn(dimension, generator=generator, dtype=torch.float64)
    basis = uniform_subspaces(20000, dimension, size, generator)
    rate = (shares(vector, basis) >= share).double().mean().item()
    exact = exceeding_probability(share, dimension, size)
    assert abs(rate - exact) < 4 * math.sqrt(exact * (1 - exact) / 20000)


def test_the_closed_form_is_elementary_for_planes_in_four_dimensions() -> None:
    assert exceeding_probability(0.3, 4, 2) == pytest.approx(0.7)
    assert exceeding_probability(0.3, 10, 2) == pytest.approx(0.7**4)


def test_the_closed_form_decays_at_the_limiting_rate() -> None:
    few, many = (math.log(exceeding_probability(0.3, d, 4)) for d in (1024, 2048))
    assert (few - many) / 1024 == pytest.approx(decay_rate(0.3), rel=0.01)


def test_labels_that_share_a_direction_have_the_stated_cosine(generator: torch.Generator) -> None:
    basis = sharing_subspaces(4000, 200, 4, generator)
    axis = torch.eye(200, dtype=torch.float64)[0]
    # m labels s c + noise of equal length: their span holds m s² / (m s² + 1 − s²) of c.
    assert shares(axis, basis).mean().item() == pytest.approx(4 / 5, abs=0.01)
    heads = common_vectors(50, 200, generator)
    torch.testing.assert_close(heads[:, 0] ** 2, torch.full((50,), 0.5, dtype=torch.float64))
    torch.testing.assert_close(heads.norm(dim=-1), torch.ones(50, dtype=torch.float64))


@pytest.mark.parametrize("size", [0, 8, 9])
def test_a_subspace_must_be_proper(generator: torch.Generator, size: int) -> None:
    with pytest.raises(UsageError, match=f"{size} in 8 dimensions.*between 1 and 7"):
        uniform_subspaces(3, 8, size, generator)


def test_a_share_beyond_one_is_refused(generator: torch.Generator) -> None:
    with pytest.raises(UsageError, match=r"1\.2"):
        aligned_vectors(uniform_subspaces(3, 8, 2, generator), 1.2, generator)
