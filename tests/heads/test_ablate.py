"""Heads knocked out while a model runs, against changed weights and a projection run by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from harness_ext.heads.ablate import Ablation, ablating, mean_inputs
from harness_ext.steering.anatomy import dissect
from harness_ext.steering.attention import Attention, dissect_attention
from tests.models import FAMILIES, LAYERS, tiny_model
from tests.steering import oracle
from tests.steering.oracle import LEFT, RIGHT, generated, padded, token_rows

HEADS = 4
# A norm behind the addition: its attention cannot be split.
SPLIT = [family for family in FAMILIES if family != "opt_projected"]
# In each layer another number of heads, none in one.
CHOSEN = torch.tensor(
    [
        [True, False, False, True],
        [False, False, False, False],
        [False, True, True, False],
        [True, True, True, True],
    ]
)
ROWS = token_rows(11, 4, 8, 6, 9)
CUES = [10, 2, 5, 0, 7]

Change = Callable[[int, Tensor], Tensor]


@pytest.fixture(scope="session", params=SPLIT)
def attention(request: pytest.FixtureRequest) -> Attention:
    return dissect_attention(dissect(tiny_model(request.param)))


@pytest.fixture(scope="session")
def llama() -> Attention:
    return dissect_attention(dissect(tiny_model("llama")))


def some_values(attention: Attention) -> Tensor:
    return oracle.random_vectors(LAYERS, HEADS, attention.size)


def numbers(attention: Attention, layer: int) -> list[int]:
    """The numbers of the projection's input that are the chosen heads'."""
    size = attention.size
    chosen = CHOSEN[layer].nonzero().flatten().tolist()
    return [number for head in chosen for number in range(head * size, (head + 1) * size)]


@contextmanager
def without_columns(attention: Attention) -> Iterator[None]:
    """While open, the projections' weights have zeros where they meet the chosen heads."""
    before = []
    for layer, output in enumerate(attention.outputs):
        weight = output.projection.weight
        before.append(weight.detach().clone())
        transposed = type(output.projection).__name__ == "Conv1D"
        with torch.no_grad():
            (weight.T if transposed else weight)[:, numbers(attention, layer)] = 0
    try:
        yield
    finally:
        with torch.no_grad():
            for output, old in zip(attention.outputs, before, strict=True):
                output.projection.weight.copy_(old)


@contextmanager
def by_hand(attention: Attention, change: Change) -> Iterator[None]:
    """While open, the input of layer l's projection is `change(l, input)`; no hooks take part."""

    def changed(layer: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        return lambda given, *rest: forward(change(layer, given), *rest)

    with ExitStack() as stack:
        for layer, output in enumerate(attention.outputs):
            output.projection.forward = changed(layer, output.projection.forward)
            stack.callback(delattr, output.projection, "forward")
        yield


def at(attention: Attention, position: int, values: Tensor | None = None) -> Change:
    """The chosen heads' outputs at one position become zero, or `values`."""

    def change(layer: int, given: Tensor) -> Tensor:
        own = numbers(attention, layer)
        given = given.clone()
        given[:, position, own] = 0 if values is None else values[layer].flatten()[own]
        return given

    return change


def slowly(attention: Attention, everywhere: bool, cue: int) -> AbstractContextManager[None]:
    """The chosen heads knocked out without :func:`ablating`."""
    return without_columns(attention) if everywhere else by_hand(attention, at(attention, cue))


def greedy(model: PreTrainedModel, ids: Sequence[int], new: int = 5) -> list[int]:
    """`new` tokens, each by a whole forward."""
    row = list(ids)
    for _ in range(new):
        row.append(int(oracle.logits(model, row)[-1].argmax()))
    return row[len(ids) :]


def test_a_head_knocked_out_everywhere_is_one_without_its_columns(attention: Attention) -> None:
    model, row = attention.anatomy.model, ROWS[0]
    with ablating(attention, Ablation(CHOSEN), 1):
        found = oracle.logits(model, row)
    with without_columns(attention):
        expected = oracle.logits(model, row)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert (found - oracle.logits(model, row)).abs().max() > 0.01


def test_a_head_knocked_out_at_one_place_changes_nothing_before_it(attention: Attention) -> None:
    model, row = attention.anatomy.model, ROWS[0]
    plain = oracle.logits(model, row)
    for values in (None, some_values(attention)):
        with ablating(attention, Ablation(CHOSEN, values), 1, [(0, 6)]):
            found = oracle.logits(model, row)
        with by_hand(attention, at(attention, 6, values)):
            expected = oracle.logits(model, row)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found[:6], plain[:6], atol=1e-5, rtol=1e-5)
        assert (found[6] - plain[6]).abs().max() > 0.01


def test_the_two_ways_differ(llama: Attention) -> None:
    """What heads wrote at earlier tokens is read at the last one."""
    with ablating(llama, Ablation(CHOSEN), 1):
        everywhere = oracle.logits(llama.anatomy.model, ROWS[0])[-1]
    with ablating(llama, Ablation(CHOSEN), 1, [(0, 10)]):
        at_the_cue = oracle.logits(llama.anatomy.model, ROWS[0])[-1]
    assert (everywhere - at_the_cue).abs().max() > 0.01


def test_values_stand_where_the_heads_outputs_did(attention: Attention) -> None:
    values = some_values(attention)
    with ablating(attention, Ablation(CHOSEN, values), 1):
        found = mean_inputs(attention, [ROWS[0]], [4])
    torch.testing.assert_close(found[CHOSEN], values[CHOSEN])
    assert (found[~CHOSEN] - values[~CHOSEN]).abs().min() > 0


def test_a_heads_own_output_in_its_place_changes_nothing(attention: Attention) -> None:
    model, row = attention.anatomy.model, ROWS[2]
    plain = oracle.logits(model, row)
    own = mean_inputs(attention, [row], [5])
    with ablating(attention, Ablation(torch.ones_like(CHOSEN), own), 1, [(0, 5)]):
        torch.testing.assert_close(oracle.logits(model, row), plain, atol=1e-5, rtol=1e-5)
    single = mean_inputs(attention, [row[:1]])
    with ablating(attention, Ablation(torch.ones_like(CHOSEN), single), 1):
        found = oracle.logits(model, row[:1])
    torch.testing.assert_close(found, plain[:1], atol=1e-5, rtol=1e-5)


def inputs_by_hand(attention: Attention, row: list[int]) -> Tensor:
    """[layers, tokens, heads, size]."""
    seen: dict[int, Tensor] = {}

    def note(layer: int, given: Tensor) -> Tensor:
        seen[layer] = given[0]
        return given

    with by_hand(attention, note):
        oracle.logits(attention.anatomy.model, row)
    stacked = torch.stack([seen[layer] for layer in range(LAYERS)])
    return stacked.unflatten(2, (HEADS, attention.size))


@pytest.mark.parametrize("budget", [1, 20, 4096])
def test_means_are_over_all_real_tokens_or_one_of_each_row(
    attention: Attention, budget: int
) -> None:
    apart = [inputs_by_hand(attention, row) for row in ROWS]
    found = mean_inputs(attention, ROWS, budget=budget)
    torch.testing.assert_close(found, torch.cat(apart, dim=1).mean(dim=1), atol=1e-5, rtol=1e-4)
    found = mean_inputs(attention, ROWS, CUES, budget)
    cues = torch.stack([own[:, cue] for own, cue in zip(apart, CUES, strict=True)])
    torch.testing.assert_close(found, cues.mean(dim=0), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("side", [LEFT, RIGHT])
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_padded_batch_gives_what_single_rows_give(
    attention: Attention, side: str, everywhere: bool
) -> None:
    model = attention.anatomy.model
    ids, mask, shifts = padded(ROWS, side)
    places = [(n, cue + shifts[n]) for n, cue in enumerate(CUES)]
    with ablating(attention, Ablation(CHOSEN), len(ROWS), None if everywhere else places):
        found = oracle.padded_logits(model, ids, mask)
    for n, row in enumerate(ROWS):
        way = (
            without_columns(attention) if everywhere else by_hand(attention, at(attention, CUES[n]))
        )
        with way:
            expected = oracle.logits(model, row)
        own = found[n, shifts[n] : shifts[n] + len(row)]
        torch.testing.assert_close(own, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("everywhere", [True, False])
def test_generation_runs_without_the_heads(attention: Attention, everywhere: bool) -> None:
    model, rows = attention.anatomy.model, ROWS[:3]
    _, __, shifts = padded(rows, LEFT)
    places = None if everywhere else [(n, CUES[n] + shifts[n]) for n in range(3)]
    with ablating(attention, Ablation(CHOSEN), 3, places):
        found = generated(model, rows)
    for n, row in enumerate(rows):
        way = (
            without_columns(attention) if everywhere else by_hand(attention, at(attention, CUES[n]))
        )
        with way:
            assert found[n] == greedy(model, row)


@pytest.mark.parametrize("everywhere", [True, False])
def test_beams_of_a_row_all_run_without_the_heads(llama: Attention, everywhere: bool) -> None:
    model, rows, cues = llama.anatomy.model, [ROWS[0], ROWS[2]], [10, 5]
    _, __, shifts = padded(rows, LEFT)
    places = None if everywhere else [(n, cues[n] + shifts[n]) for n in range(2)]
    beams = {"num_beams": 3, "num_return_sequences": 3}
    with ablating(llama, Ablation(CHOSEN), 2, places):
        cached = generated(model, rows, **beams)
        uncached = generated(model, rows, **beams, use_cache=False)
    alone = []
    for n, row in enumerate(rows):
        with slowly(llama, everywhere, cues[n]):
            alone += generated(model, [row], **beams, use_cache=False)
    assert cached == uncached == alone
    assert cached != generated(model, rows, **beams)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "bloom"])
def test_a_place_falls_into_the_part_of_a_prompt_that_holds_it(family: str) -> None:
    attention = dissect_attention(dissect(tiny_model(family)))
    anatomy, row = attention.anatomy, ROWS[4]
    for position in range(9):
        cache = DynamicCache(config=anatomy.model.config)
        given = {"use_cache": True, anatomy.cache_argument: cache}
        with torch.no_grad(), ablating(attention, Ablation(CHOSEN), 1, [(0, position)]):
            parts = [
                anatomy.model(input_ids=torch.tensor([part]), **given).logits[0]
                for part in (row[:4], row[4:6], row[6:])
            ]
        with by_hand(attention, at(attention, position)):
            expected = oracle.logits(anatomy.model, row)
        torch.testing.assert_close(torch.cat(parts), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("places", [None, [(0, 8)], []])
def test_no_heads_and_no_places_change_no_bit(
    llama: Attention, places: list[tuple[int, int]] | None
) -> None:
    model, row = llama.anatomy.model, ROWS[4]
    heads = torch.zeros_like(CHOSEN) if places != [] else CHOSEN
    with ablating(llama, Ablation(heads), 1, places):
        found = oracle.logits(model, row)
    assert torch.equal(found, oracle.logits(model, row))


def test_a_coarse_dtype_is_kept() -> None:
    attention = dissect_attention(dissect(tiny_model("llama").bfloat16()))
    with ablating(attention, Ablation(CHOSEN, some_values(attention)), 1):
        found = oracle.logits(attention.anatomy.model, ROWS[0])
    assert found.dtype == torch.bfloat16
    assert not torch.equal(found, oracle.logits(attention.anatomy.model, ROWS[0]))
    assert mean_inputs(attention, ROWS).dtype == torch.float32


def test_what_an_adapter_wraps_is_ablated() -> None:
    class Wrapped(torch.nn.Module):
        def __init__(self, base: torch.nn.Module) -> None:
            super().__init__()
            self.base = base
            self.low = torch.nn.Linear(base.in_features, 2, bias=False)
            self.high = torch.nn.Linear(2, base.out_features, bias=False)

        def forward(self, given: Tensor) -> Tensor:
            return self.base(given) + self.high(self.low(given))

    model = tiny_model("llama")
    for layer in model.model.layers:
        layer.self_attn.o_proj = Wrapped(layer.self_attn.o_proj)
    attention = dissect_attention(dissect(model.eval()))
    with ablating(attention, Ablation(torch.ones_like(CHOSEN)), 1):
        found = oracle.logits(model, ROWS[0])
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.base.weight.zero_()
            layer.self_attn.o_proj.high.weight.zero_()
    torch.testing.assert_close(found, oracle.logits(model, ROWS[0]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_are_gone_afterwards_also_after_an_exception(fails: bool) -> None:
    attention = dissect_attention(dissect(tiny_model("llama")))
    model, row = attention.anatomy.model, ROWS[4]
    plain = oracle.logits(model, row)
    with (
        pytest.raises(KeyboardInterrupt) if fails else nullcontext(),
        ablating(attention, Ablation(CHOSEN), 1),
    ):
        assert not torch.equal(oracle.logits(model, row), plain)
        if fails:
            raise KeyboardInterrupt
    mean_inputs(attention, [row])
    assert torch.equal(oracle.logits(model, row), plain)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_batch_that_nobody_planned_is_refused(llama: Attention) -> None:
    with (
        ablating(llama, Ablation(CHOSEN), 2, [(0, 1)]),
        pytest.raises(RuntimeError, match="planned for 2 rows, but the model runs 3"),
    ):
        llama.anatomy.model(input_ids=torch.tensor(token_rows(4, 4, 4)))
