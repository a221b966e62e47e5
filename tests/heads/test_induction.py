from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from harness_ext.errors import UsageError
from harness_ext.heads.induction import induction_scores
from harness_ext.steering.anatomy import Anatomy, dissect
from tests.models import LAYERS, tiny_model

TOKENS, POSITIONS = 20, 24
WIDTH = 2 * 32
LENGTH = 8
SHARP = 60.0
"""Size of an attention score that leaves nothing to other tokens."""


def planted() -> Anatomy:
    """A GPT-2 with an induction head, (1, 1), and what it needs, a head (0, 0) that looks one back.

    A state is the one-hot vectors of its token (first 20 numbers), its position (next 24) and, from
    layer 0 on, the token before (last 20). The other two heads look at all tokens alike.
    """
    config = GPT2Config(
        vocab_size=TOKENS,
        n_positions=POSITIONS,
        n_embd=WIDTH,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        transformer = model.transformer
        transformer.wte.weight[:, :TOKENS] = torch.eye(TOKENS)
        transformer.wpe.weight[:, TOKENS : TOKENS + POSITIONS] = torch.eye(POSITIONS)
        for ones, norm in ((2, transformer.h[0].ln_1), (3, transformer.h[1].ln_1)):
            _undo(norm, ones)
        transformer.ln_f.weight.fill_(1)
        token, position, before = (
            torch.eye(WIDTH)[:, part]
            for part in (
                slice(0, TOKENS),
                slice(TOKENS, TOKENS + POSITIONS),
                slice(TOKENS + POSITIONS, WIDTH),
            )
        )
        one_on = torch.eye(POSITIONS).roll(1, dims=1)
        _head(transformer.h[0].attn, 0, query=position, key=position @ one_on, value=token)
        transformer.h[0].attn.c_proj.weight[:TOKENS] = before.T
        _head(transformer.h[1].attn, 1, query=token, key=before, value=token)
        transformer.h[1].attn.c_proj.weight[32 : 32 + TOKENS] = token.T
    return dissect(model)


def _undo(norm: torch.nn.LayerNorm, ones: int) -> None:
    """Weights with which a norm gives back a state of so many ones, and zeros."""
    mean = ones / WIDTH
    size = (mean - mean**2 + norm.eps) ** 0.5
    norm.weight.fill_(size)
    norm.bias.fill_(mean)


def _head(attention: torch.nn.Module, head: int, query: Tensor, key: Tensor, value: Tensor) -> None:
    weight = attention.c_attn.weight  # type: ignore[union-attr]
    for part, own in enumerate((SHARP * query, key, value)):
        start = part * WIDTH + head * 32
        weight[:, start : start + own.shape[1]] = own  # type: ignore[index,operator]


@pytest.mark.parametrize("start", [[0], [0, 1, 2]])
def test_a_planted_induction_head_is_found_and_no_other(start: list[int]) -> None:
    found = induction_scores(planted(), start, range(3, TOKENS), seed=0, length=LENGTH)
    assert found.shape == (2, 2)
    assert found[1, 1] > 0.99
    # One back is never the token after the first occurrence; an even look finds it among all.
    assert found[0, 0] < 0.01
    assert found[0, 1] < 1 / LENGTH and found[1, 0] < 1 / LENGTH


def test_scores_are_the_mean_weights_on_what_followed_each_token_before() -> None:
    model = tiny_model("llama", attn_implementation="eager")
    start, vocabulary = [1], range(30, 300, 3)
    rows: list[list[int]] = []
    handle = model.register_forward_pre_hook(
        lambda _, __, kwargs: rows.extend(kwargs["input_ids"].tolist()), with_kwargs=True
    )
    anatomy = dissect(model)
    rows.clear()
    found = induction_scores(anatomy, start, vocabulary, seed=3, sequences=4, length=12)
    handle.remove()
    rows = [row for row in rows if len(row) == 1 + 2 * 12]
    assert len({tuple(row) for row in rows}) == 4
    expected = torch.zeros(LAYERS, 4)
    for row in rows:
        assert row[:1] == start and row[1:13] == row[13:] and set(row[1:]) <= set(vocabulary)
        with torch.no_grad():
            given = model(input_ids=torch.tensor([row]), output_attentions=True).attentions
        for position in range(13, 25):
            before = row.index(row[position])
            for layer in range(LAYERS):
                expected[layer] += given[layer][0, :, position, before + 1] / 12 / 4
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_scores_follow_from_the_seed() -> None:
    anatomy = dissect(tiny_model("gpt2"))

    def scores(seed: int) -> Tensor:
        return induction_scores(anatomy, [1], range(10, 90), seed, sequences=2, length=10)

    assert torch.equal(scores(0), scores(0))
    assert not torch.equal(scores(0), scores(1))


def test_too_few_tokens_to_draw_from_are_refused() -> None:
    anatomy = dissect(tiny_model("gpt2"))
    with pytest.raises(UsageError, match=r"on 50 different random tokens; .* only 49"):
        induction_scores(anatomy, [1], range(49), seed=0)
