"""Probes of hand-made models whose figures are known."""

from __future__ import annotations

import pytest
import torch

from harness_ext.theory.concept_retrieval.concepts import trained_concepts, unseen_concepts
from harness_ext.theory.concept_retrieval.model import Architecture, Weights, stream
from harness_ext.theory.concept_retrieval.probes import (
    cosines,
    error,
    error_without_query,
    generalisation_probes,
    oracle_error,
    projections,
    standard_probes,
)
from harness_ext.theory.concept_retrieval.prompts import demonstration_prompts
from harness_ext.theory.concept_retrieval.training import Setting

SETTING = Setting(concepts=6, common=5, dimension=30, noise=0.02)
CONCEPTS = SETTING.vectors()
FULL = Architecture()


def _model(value: torch.Tensor) -> Weights:
    """Uniform attention and the given W_V."""
    zero = torch.zeros(1, 30, 30)
    return Weights(value[None], zero, zero)


IDEAL = _model(CONCEPTS.high.mT @ CONCEPTS.high)
"""W_V projects on the a_k: what QA training should come to."""

LOW = _model(CONCEPTS.high.mT @ CONCEPTS.high + 0.7 * CONCEPTS.low.mT @ CONCEPTS.low)


def test_projections_keep_signs_apart_and_average_absolute_values() -> None:
    signs = torch.tensor([1.0, -1, 1, -1, 1, -1]).diag()
    value = 2 * CONCEPTS.high.mT @ CONCEPTS.high + CONCEPTS.low.mT @ (0.5 * signs) @ CONCEPTS.low
    value = value + 0.25 * CONCEPTS.low.mT @ CONCEPTS.high
    identity = CONCEPTS.high.mT @ (torch.eye(6) + 1) @ CONCEPTS.high
    found = projections(Weights(value[None], torch.eye(30)[None], identity[None]), CONCEPTS)
    expected = {
        "value a": 2.0,
        "value b": 0.5,
        "value b signed": 0.0,
        "value a to b": 0.25,
        "attention a": 2.0,
        "attention other a": 1.0,
        "attention b": 0.0,
    }
    assert {name: figure.item() for name, figure in found.items()} == pytest.approx(expected)


def test_the_ideal_model_answers_long_prompts_with_and_without_the_query() -> None:
    prompts = demonstration_prompts(CONCEPTS, 32, 300, 0.02, stream(0, "t"))
    assert error(IDEAL, FULL, prompts, CONCEPTS.dictionary()) == 0
    assert error_without_query(IDEAL, FULL, prompts, CONCEPTS.dictionary()) == 0


def test_without_the_residual_stream_half_the_answers_are_wrong() -> None:
    prompts = demonstration_prompts(CONCEPTS, 32, 1000, 0.02, stream(0, "t"))
    wrong = error(IDEAL, Architecture(residual=False), prompts, CONCEPTS.dictionary())
    assert 0.4 < wrong <= 1


def test_cosines_tell_the_ideal_model_from_one_that_keeps_low_level_vectors() -> None:
    prompts = demonstration_prompts(CONCEPTS, 16, 300, 0.02, stream(0, "t"))
    ideal, low = cosines(IDEAL, prompts, CONCEPTS), cosines(LOW, prompts, CONCEPTS)
    assert ideal["cos a"] > 0.85
    assert ideal["cos b"] < 0.01
    assert low["cos b"] > 0.1
    assert low["cos other"] >= low["cos b"]


def test_the_oracle_errs_only_by_the_querys_own_noise() -> None:
    prompts = demonstration_prompts(CONCEPTS, 1, 300, 0.02, stream(0, "t"))
    assert oracle_error(prompts, CONCEPTS, CONCEPTS.dictionary()) == 0
    noisy = demonstration_prompts(CONCEPTS, 1, 300, 0.5, stream(0, "t"))
    assert oracle_error(noisy, CONCEPTS, CONCEPTS.dictionary()) > 0.1


def test_generalisation_of_the_ideal_model_is_by_span_not_by_cone() -> None:
    found = generalisation_probes(IDEAL, FULL, SETTING, 0, 200)
    assert found["unseen error, cone"] < 0.05
    assert found["unseen error, signed"] < 0.05
    assert found["unseen error, outside"] > 0.3
    assert found["mixture cosine"] > found["mixture cosine, single"] + 0.05
    assert found["mixture correlation"] > 0.9 > found["mixture correlation, exchanged"]
    assert found["error, 32 unrelated pairs, noise 0.08"] > 0.3


def test_probes_are_the_same_again() -> None:
    assert standard_probes(LOW, FULL, SETTING, 3, 50) == standard_probes(LOW, FULL, SETTING, 3, 50)


def test_unseen_answers_are_rows_of_the_dictionary_beside_the_trained_ones() -> None:
    unseen = unseen_concepts(trained_concepts(6, 5, 30), "cone", stream(0, "u"))
    prompts = demonstration_prompts(unseen, 8, 100, 0.02, stream(0, "t"))
    both = torch.cat([unseen.dictionary(), CONCEPTS.dictionary()])
    assert error(IDEAL, FULL, prompts, both) <= 0.05
