"""A model with planted heads: its scores name exactly these.

A GPT-2 with weights set by hand. Its tokens and positions are one-hot in the residual stream; the
unembeddings of two labels are directions of their own. One head looks everywhere and, wherever a
label stands, writes that label's direction; another looks at the query and writes the right label
less the wrong one. All other heads are small noise.
"""

from __future__ import annotations

import random

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from harness_ext.heads.select import top_heads
from harness_ext.heads.tsla import LabelSet, Scores, score
from harness_ext.steering.anatomy import dissect
from harness_ext.steering.attention import dissect_attention
from harness_ext.steering.head_outputs import head_outputs

LAYERS, HEADS, SIZE = 3, 4, 12
WIDTH = HEADS * SIZE
FIRST_WORD, LABELS, POSITIONS = 0, (20, 21), 11
WORDS = 12  # even ones have the first label, odd ones the second
RECOGNISES, LEARNS = (2, 1), (1, 3)
"""(layer, head) of the planted heads."""


def planted() -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=24,
        n_positions=POSITIONS,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPT2LMHeadModel(config).eval()
    directions = torch.eye(WIDTH)
    token, place, unembedding = directions[:24], directions[24:35], directions[36:38]
    with torch.no_grad():
        model.transformer.wte.weight.copy_(token)
        model.transformer.wpe.weight.copy_(place)
        model.lm_head.weight[list(LABELS)] = unembedding
        layer, head = RECOGNISES
        attention = model.transformer.h[layer].attn
        queries, keys, values = _slices(attention.c_attn.weight, head)
        queries.zero_(), keys.zero_(), values.zero_()
        for number, label in enumerate(LABELS):
            values[label, number] = 3.0
            attention.c_proj.weight[head * SIZE + number] = 9 * unembedding[number]
        layer, head = LEARNS
        attention = model.transformer.h[layer].attn
        queries, keys, values = _slices(attention.c_attn.weight, head)
        queries.zero_(), keys.zero_(), values.zero_()
        attention.c_attn.bias[head * SIZE] = 20.0
        keys[24 + POSITIONS - 2, 0] = 20.0  # the query stands right before the cue
        for word in range(WORDS):
            values[FIRST_WORD + word, 0] = 1.0 if word % 2 == 0 else -1.0
        attention.c_proj.weight[head * SIZE] = unembedding[0] - unembedding[1]
    return model


def _slices(weight: torch.Tensor, head: int) -> list[torch.Tensor]:
    """A head's columns of the joined projection of queries, keys and values."""
    starts = (part * WIDTH + head * SIZE for part in range(3))
    return [weight[:, start : start + SIZE] for start in starts]


@pytest.fixture(scope="module")
def scores() -> Scores:
    model, draw = planted(), random.Random(0)
    rows, labels = [], []
    for _ in range(12):
        words = draw.sample(range(WORDS), 4)
        cue, ids = 22, []
        for word in words[:3]:
            ids += [word, cue, LABELS[word % 2]]
        rows.append([*ids, words[3], cue])
        right = LABELS[words[3] % 2]
        labels.append(LabelSet(("right", "wrong"), (right, sum(LABELS) - right)))
    attention = dissect_attention(dissect(model))
    outputs = head_outputs(attention, rows)
    return score(outputs, labels, model.lm_head.weight.detach())


def test_the_planted_task_recognition_head_is_found(scores: Scores) -> None:
    assert top_heads(scores.tr, 1 / 12) == [RECOGNISES]
    others = scores.tr.clone()
    others[RECOGNISES] = 0
    others[LEARNS] = 0
    assert scores.tr[RECOGNISES] > 50 * others.max()


def test_the_planted_task_learning_head_is_found(scores: Scores) -> None:
    assert top_heads(scores.tl, 1 / 12) == [LEARNS]
    # It writes along right - wrong alone: the lead is the norm times the length of that.
    assert float(scores.tl[LEARNS]) == pytest.approx(2**0.5, rel=0.02)
    assert abs(float(scores.tl[RECOGNISES])) < 0.6


def test_direct_logit_attribution_confuses_the_two(scores: Scores) -> None:
    ranked = top_heads(scores.label_logit, 2 / 12)
    assert set(ranked) == {RECOGNISES, LEARNS}
