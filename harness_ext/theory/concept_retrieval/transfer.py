"""What a trained model can do: task vectors alone, unseen concepts, mixtures, length, noise."""

from __future__ import annotations

from collections.abc import Callable

from harness_ext.theory.check import Claim
from harness_ext.theory.concept_retrieval.learning import ANSWERABLE, PAPER, SHARE, picked_up
from harness_ext.theory.concept_retrieval.probes import PAIRS
from harness_ext.theory.rules import Evidence, Rule, Runs, named

BROKEN = 0.1
"""A test error that counts as broken: ten times what counts as answered."""

REACHED = 0.02
NEVER = 2 * PAIRS[-1]
"""Stands for "longer than any prompt tested"."""


def _length_needed(noise: float) -> Callable[[Runs], list[float]]:
    """Pairs of the shortest prompt whose error is at most 2 %, per seed."""

    def pairs(runs: Runs) -> list[float]:
        errors = [runs["qa"][f"error, {pairs} pairs, noise {noise}"] for pairs in PAIRS]
        return [
            float(next((p for p, e in zip(PAIRS, row, strict=True) if e <= REACHED), NEVER))
            for row in zip(*errors, strict=True)
        ]

    return pairs


def _unrelated_length(noise: float) -> Callable[[Runs], list[float]]:
    name = f"error, {PAIRS[-1]} unrelated pairs, noise {noise}"
    return lambda runs: [float(PAIRS[-1] if e <= REACHED else NEVER) for e in runs["qa"][name]]


def _mixture(recipe: str, correlation: str) -> Callable[[Runs], Evidence]:
    return named(recipe, cosine="mixture cosine", correlation=correlation)


def _ablated(recipe: str) -> Callable[[Runs], Evidence]:
    return named(recipe, at_4_pairs="error, 4 pairs", at_16_pairs="error, 16 pairs")


def _best(recipe: str) -> Callable[[Runs], Evidence]:
    """The lowest test error at any time in training, 4 pairs."""
    return lambda runs: {
        "lowest error while training": [min(curve) for curve in runs[recipe]["error, curve"]]
    }


RULES = (
    Rule(
        Claim(
            "task-vector-alone",
            "After QA training, the vector read from demonstrations without a query, added to any "
            "query of the concept, answers it.",
            f"{PAPER}, Theorem 3.2",
            "share of wrong answers when h0 is read at the last label of 4 pairs and the query, of "
            "a sign of its own, is added to it",
            "below 2 %: twice the bound with the query in the prompt, because the last label's own "
            "distractor now steers the attention",
            "holds",
        ),
        named("qa", error="error without query, 4 pairs"),
        lambda error: error < 2 * ANSWERABLE,
        "ICL-trained",
        named("icl", error="error without query, 4 pairs"),
    ),
    Rule(
        Claim(
            "residual-needed",
            "Without the residual stream the arithmetic breaks.",
            f"{PAPER}, the model's design",
            "share of wrong answers of a QA-trained model with h = h0 / |h0|, 4 and 16 pairs",
            "above 10 % at both lengths, ten times what counts as answered",
            "holds",
        ),
        _ablated("no-residual"),
        lambda four, sixteen: min(four, sixteen) > BROKEN,
        "QA-trained with both parts",
        _ablated("qa"),
        named("no-residual", cos_of_h0_to_a="cos a, 4 pairs"),
    ),
    Rule(
        Claim(
            "normalisation-needed",
            "Trained as long as the full model, a model without the normalisation breaks.",
            f"{PAPER}, the model's design",
            "share of wrong answers of a QA-trained model with h = h0 + T_L, 4 and 16 pairs, after "
            "the last step",
            "above 10 % at both lengths, ten times what counts as answered",
            "holds",
        ),
        _ablated("no-normalisation"),
        lambda four, sixteen: min(four, sixteen) > BROKEN,
        "QA-trained with both parts",
        _ablated("qa"),
        named("no-normalisation", cos_of_h0_to_a="cos a, 4 pairs"),
    ),
    Rule(
        Claim(
            "normalisation-needed-always",
            "A model without the normalisation answers at no time in its training.",
            f"{PAPER}, the model's design, read strictly",
            "the lowest share of wrong answers at any time in training, 4 pairs",
            "above 10 %, ten times what counts as answered",
            "does not hold",
        ),
        _best("no-normalisation"),
        lambda lowest: lowest > BROKEN,
        "without the residual stream",
        _best("no-residual"),
    ),
    Rule(
        Claim(
            "unseen-in-cone",
            "The QA-trained model handles unseen concepts in the cone of the trained ones, with "
            "low-level vectors it never saw.",
            f"{PAPER}, Proposition 3.4",
            "share of wrong answers, 4 pairs; the dictionary holds the unseen tokens beside the "
            "trained ones",
            "below 2 %: twice the bound for trained concepts, because half as many concepts let "
            "distractors coincide twice as often",
            "holds",
        ),
        named("qa", error="unseen error, cone"),
        lambda error: error < 2 * ANSWERABLE,
        "unseen task vectors orthogonal to all trained ones",
        named("qa", error="unseen error, outside"),
        named("icl", ICL_trained="unseen error, cone"),
    ),
    Rule(
        Claim(
            "cone-needed",
            "Unseen concepts must lie in the cone: a combination with a negative coefficient is "
            "not handled.",
            f"{PAPER}, Proposition 3.4, the condition read as needed",
            "share of wrong answers on a' = cos(t) a_2j − sin(t) a_2j+1, 4 pairs",
            "above 10 %, ten times what counts as answered",
            "does not hold",
        ),
        named("qa", error="unseen error, signed"),
        lambda error: error > BROKEN,
        "unseen task vectors orthogonal to all trained ones",
        named("qa", error="unseen error, outside"),
    ),
    Rule(
        Claim(
            "mixtures",
            "With several co-task concepts of weights w_k in the prompt, h0 is their weighted sum "
            "of a_k.",
            f"{PAPER}, Proposition 3.4",
            "prompts of 16 pairs whose tokens all carry 3 concepts: cos(h0, sum_k w_k a_k), and "
            "the correlation of h0's coefficients with w_k within prompts",
            "cosine above 0.85, which no single a_k reaches, and correlation above 0.9",
            "holds",
        ),
        _mixture("qa", "mixture correlation"),
        lambda cosine, correlation: cosine > 0.85 and correlation > 0.9,
        "the same weights exchanged between the prompt's concepts",
        _mixture("qa", "mixture correlation, exchanged"),
        named("qa", cosine_with_the_heaviest_a="mixture cosine, single"),
    ),
    Rule(
        Claim(
            "longer-prompts",
            "Longer prompts lower the error of the QA-trained model.",
            f"{PAPER}, Theorem 3.2",
            "share of wrong answers on prompts of 1 and 32 pairs",
            "at 32 pairs at most a tenth of that at 1: by then the co-task concept outweighs any "
            "distractor",
            "holds",
        ),
        named("qa", at_1_pair="error, 1 pairs", at_32_pairs="error, 32 pairs"),
        lambda short, long: long <= short / 10,
        "every pair of a concept of its own",
        named(
            "qa",
            at_1_pair="error, 1 unrelated pairs, noise 0.08",
            at_32_pairs="error, 32 unrelated pairs, noise 0.08",
        ),
    ),
    Rule(
        Claim(
            "noise-needs-length",
            "More noise needs longer prompts.",
            f"{PAPER}, Proposition 3.3",
            "pairs of the shortest prompt with at most 2 % wrong answers, for noise of 0.08 and "
            f"0.16 a coordinate; {NEVER} stands for none up to {PAIRS[-1]}",
            "longer at 0.16 than at 0.08 and at most 32 pairs; 2 % lies well above what "
            "the query's own noise costs at 0.16 with h0 = a_k exactly, 0.3 % at most",
            "holds",
        ),
        lambda runs: {
            "pairs needed at 0.08": _length_needed(0.08)(runs),
            "at 0.16": _length_needed(0.16)(runs),
        },
        lambda little, much: little < much <= PAIRS[-1],
        "every pair of a concept of its own",
        lambda runs: {
            "pairs needed at 0.08": _unrelated_length(0.08)(runs),
            "at 0.16": _unrelated_length(0.16)(runs),
        },
        lambda runs: {
            "at 0.2": _length_needed(0.2)(runs),
            "error there with h0 = a": runs["qa"]["oracle error, noise 0.2"],
        },
    ),
    Rule(
        Claim(
            "qa-icl-values",
            "Trained on question sentences followed by demonstrations, W_V picks up b_k too.",
            f"{PAPER}, the third training distribution",
            "|b_k'W_V b_k| as a share of a_k'W_V a_k, mean over k, and |cos(h0, b_k)| on ICL "
            "prompts of 4 pairs",
            "both above 0.4, twice what counts as negligible",
            "holds",
        ),
        picked_up("qa-icl"),
        lambda own, cosine: min(own, cosine) > 2 * SHARE,
        "QA-trained",
        picked_up("qa"),
        named("qa-icl", error_at_4_pairs="error, 4 pairs"),
    ),
)
