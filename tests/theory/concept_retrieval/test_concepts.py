"""Task vectors, low-level vectors and their dictionary."""

from __future__ import annotations

import pytest
import torch

from harness_ext.errors import UsageError
from harness_ext.theory.concept_retrieval.concepts import trained_concepts, unseen_concepts
from harness_ext.theory.concept_retrieval.model import stream


def test_all_vectors_are_orthonormal() -> None:
    concepts = trained_concepts(4, 5, 20)
    vectors = torch.cat([concepts.high, concepts.low, concepts.common])
    torch.testing.assert_close(vectors @ vectors.mT, torch.eye(13))


def test_the_dictionary_has_seven_tokens_a_concept_and_the_common_ones() -> None:
    concepts = trained_concepts(3, 5, 20)
    rows = concepts.dictionary()
    assert rows.shape == (7 * 3 + 5, 20)
    a, b = concepts.high[2], concepts.low[2]
    for row in (a + b, a - b, 0.1 * a + b, 0.1 * a - b, b, -b, a, concepts.common[4]):
        assert (rows == row).all(dim=1).sum() == 1
    torch.testing.assert_close(rows[4], a + b)
    torch.testing.assert_close(rows[5], a - b)


@pytest.mark.parametrize(("placement", "lowest"), [("cone", 0.0), ("signed", -1.0)])
def test_unseen_concepts_combine_two_trained_ones(placement: str, lowest: float) -> None:
    trained = trained_concepts(6, 5, 30)
    unseen = unseen_concepts(trained, placement, stream(0, "x"))  # type: ignore[arg-type]
    vectors = torch.cat([unseen.high, unseen.low])
    torch.testing.assert_close(vectors @ vectors.mT, torch.eye(6), atol=1e-6, rtol=0)
    coefficients = unseen.high @ trained.high.mT
    torch.testing.assert_close(coefficients.square().sum(dim=1), torch.ones(3))
    assert (coefficients.abs() > 0.3).sum(dim=1).tolist() == [2, 2, 2]
    assert (coefficients.min() >= 0) == (lowest == 0.0)
    assert (unseen.low @ torch.cat([trained.high, trained.low]).mT == 0).all()


def test_concepts_outside_share_no_direction_with_anything_trained() -> None:
    trained = trained_concepts(6, 5, 30)
    unseen = unseen_concepts(trained, "outside", stream(0, "x"))
    old = torch.cat([trained.high, trained.low, trained.common])
    assert (torch.cat([unseen.high, unseen.low]) @ old.mT == 0).all()


def test_too_few_dimensions_are_refused_with_the_number_needed() -> None:
    with pytest.raises(UsageError, match=r"dimension is 10.*13"):
        trained_concepts(4, 5, 10)
    with pytest.raises(UsageError, match="at least 17"):
        unseen_concepts(trained_concepts(4, 5, 14), "cone", stream(0, "x"))
    with pytest.raises(UsageError, match="1 concepts"):
        trained_concepts(1, 5, 10)
