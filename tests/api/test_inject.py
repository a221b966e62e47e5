"""`inject`, around calls and generations, against layers whose `forward` is replaced."""

from __future__ import annotations

import gc
import inspect
import weakref
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, T5Config, T5ForConditionalGeneration

from harness_ext import Injection, inject
from harness_ext.errors import UsageError
from tests.models import LAYERS, tiny_model
from tests.steering import oracle
from tests.steering.oracle import random_vectors, token_rows

torch.set_num_threads(1)

FAMILIES = ("llama", "gpt2", "gemma3_text", "bloom", "falcon")
VECTORS = random_vectors(LAYERS, 32)
ROWS = token_rows(11, 4, 8)
NEW = 5
LEFT, RIGHT = "left", "right"
GREEDY: dict[str, Any] = {
    "max_new_tokens": NEW,
    "do_sample": False,
    "eos_token_id": None,
    "pad_token_id": 0,
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(family: str) -> PreTrainedModel:
    return tiny_model(family)


@pytest.fixture(scope="module")
def layers(family: str, model: PreTrainedModel) -> list[nn.Module]:
    return oracle.decoder_layers(family, model)


@pytest.fixture
def llama() -> PreTrainedModel:
    """Of one family, for what does not depend on it; new in every test."""
    return tiny_model("llama")


def change(injection: Injection) -> oracle.Change:
    vector, strength = injection.vector, injection.strength
    return lambda state: vector if strength is None else state + strength * vector


def padded(rows: list[list[int]], side: str) -> dict[str, Tensor]:
    """Ids and mask; padding is an ordinary token, so that the mask has to serve."""
    width = max(map(len, rows))
    ids, mask = [], []
    for row in rows:
        more = width - len(row)
        left, right = (more, 0) if side == LEFT else (0, more)
        ids.append([7] * left + row + [7] * right)
        mask.append([0] * left + [1] * len(row) + [0] * right)
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def with_positions(model: PreTrainedModel, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The batch with the position ids that a call, unlike a generation, has to be given."""
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return batch
    return {**batch, "position_ids": (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)}


def logits(model: PreTrainedModel, *args: Any, **given: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(*args, **given).logits
    return found


def new_tokens(model: PreTrainedModel, batch: dict[str, Tensor], **settings: Any) -> list[Any]:
    found = model.generate(**batch, **{**GREEDY, **settings})
    return list(found[:, batch["input_ids"].shape[1] :].tolist())


@pytest.mark.parametrize("side", [LEFT, RIGHT])
@pytest.mark.parametrize("strength", [None, 1.5])
def test_every_row_of_a_mixed_batch_is_changed_at_its_last_real_token(
    model: PreTrainedModel, layers: list[nn.Module], side: str, strength: float | None
) -> None:
    injection = Injection(1, VECTORS[1], strength)
    batch = with_positions(model, padded(ROWS, side))
    with inject(model, injection):
        found = logits(model, **batch)
    for number, row in enumerate(ROWS):
        expected = oracle.changed_logits(model, layers[1], row, len(row) - 1, change(injection))
        real = batch["attention_mask"][number].bool()
        torch.testing.assert_close(found[number][real], expected, atol=1e-4, rtol=1e-4)
        assert (expected[-1] - oracle.logits(model, row)[-1]).abs().max() > 0.01


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_positions_are_columns_of_the_batch_as_given(
    model: PreTrainedModel, layers: list[nn.Module], side: str
) -> None:
    places, injection = [3, 0, 5], Injection(2, VECTORS[0])
    batch = with_positions(model, padded(ROWS, side))
    shifts = [11 - len(row) if side == LEFT else 0 for row in ROWS]
    columns = [place + shift for place, shift in zip(places, shifts, strict=True)]
    for given in (columns, torch.tensor(columns)):
        with inject(model, injection, positions=given):
            found = logits(model, **batch)
        for number, (row, place) in enumerate(zip(ROWS, places, strict=True)):
            expected = oracle.changed_logits(model, layers[2], row, place, change(injection))
            real = batch["attention_mask"][number].bool()
            torch.testing.assert_close(found[number][real], expected, atol=1e-4, rtol=1e-4)


def test_without_a_mask_the_last_column_is_changed(
    model: PreTrainedModel, layers: list[nn.Module]
) -> None:
    injection = Injection(0, VECTORS[0])
    expected = oracle.changed_logits(model, layers[0], ROWS[0], 10, change(injection))
    ids = torch.tensor([ROWS[0]])
    with inject(model, injection):
        for found in (logits(model, ids), logits(model, input_ids=ids)):
            torch.testing.assert_close(found[0], expected, atol=1e-5, rtol=1e-5)


def test_a_mask_given_by_position_and_embeddings_given_for_ids_serve_as_well(
    llama: PreTrainedModel,
) -> None:
    batch = padded(ROWS, RIGHT)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with inject(llama, Injection(1, VECTORS[1])):
        expected = logits(llama, **batch)
        assert torch.equal(logits(llama, ids, mask), expected)
        embedded = llama.get_input_embeddings()(ids).detach()
        assert torch.equal(logits(llama, inputs_embeds=embedded, attention_mask=mask), expected)
        del batch["attention_mask"]
        assert not torch.equal(logits(llama, **batch), expected)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("strength", [None, 2.0])
def test_greedy_generation_is_changed_once_at_the_prompts_end(
    model: PreTrainedModel, layers: list[nn.Module], cached: bool, strength: float | None
) -> None:
    injection = Injection(2, VECTORS[2], strength)
    with inject(model, injection):
        found = new_tokens(model, padded(ROWS, LEFT), use_cache=cached)
    for row, own in zip(ROWS, found, strict=True):
        place = len(row) - 1
        assert own == oracle.greedy(model, layers[2], row, place, change(injection), NEW)


@pytest.mark.parametrize("cached", [True, False])
def test_generation_can_be_changed_at_given_positions(
    model: PreTrainedModel, layers: list[nn.Module], cached: bool
) -> None:
    injection, places = Injection(1, VECTORS[3]), [4, 1, 6]
    columns = [place + 11 - len(row) for place, row in zip(places, ROWS, strict=True)]
    with inject(model, injection, columns):
        found = new_tokens(model, padded(ROWS, LEFT), use_cache=cached)
    for row, place, own in zip(ROWS, places, found, strict=True):
        assert own == oracle.greedy(model, layers[1], row, place, change(injection), NEW)


@pytest.mark.parametrize("cached", [True, False])
def test_all_beams_and_returned_sequences_carry_the_injection(
    model: PreTrainedModel, layers: list[nn.Module], cached: bool
) -> None:
    injection = Injection(1, VECTORS[1], 3.0)
    beams = {"num_beams": 4, "num_return_sequences": 2}
    with inject(model, injection):
        found = new_tokens(model, padded(ROWS, LEFT), use_cache=cached, **beams)
    expected = []
    for row in ROWS:
        batch = {"input_ids": torch.tensor([row]), "attention_mask": torch.ones(1, len(row)).long()}
        # Without a cache every forward covers the prompt, and the changed layer changes it anew.
        with oracle.changed(layers[1], len(row) - 1, change(injection)):
            expected += new_tokens(model, batch, use_cache=False, **beams)
    assert found == expected
    assert found != new_tokens(model, padded(ROWS, LEFT), **beams)


@pytest.mark.parametrize("cached", [True, False])
def test_sampling_draws_from_the_changed_distribution(
    model: PreTrainedModel, layers: list[nn.Module], cached: bool
) -> None:
    injection, row = Injection(1, VECTORS[1], 3.0), ROWS[0]
    batch = {"input_ids": torch.tensor([row]), "attention_mask": torch.ones(1, 11).long()}
    sampling = {"do_sample": True, "num_return_sequences": 3, "top_k": 0}

    def draw(**settings: Any) -> list[Any]:
        torch.manual_seed(3)
        return new_tokens(model, batch, **sampling, **settings)

    with inject(model, injection):
        found = draw(use_cache=cached)
    with oracle.changed(layers[1], 10, change(injection)):
        assert found == draw(use_cache=False)
    assert found != draw()


def test_generation_from_a_prompt_padded_on_the_right_is_changed_at_its_last_real_token(
    llama: PreTrainedModel,
) -> None:
    layer, injection = llama.model.layers[1], Injection(1, VECTORS[1])
    batch = {k: v[1:2] for k, v in padded(ROWS, RIGHT).items()}
    with inject(llama, injection):
        found = new_tokens(llama, batch)
    with oracle.changed(layer, len(ROWS[1]) - 1, change(injection)):
        assert found == new_tokens(llama, batch, use_cache=False)


def test_generation_after_a_cached_beginning_is_changed_at_the_prompts_end(
    llama: PreTrainedModel,
) -> None:
    injection, (row, *_) = Injection(1, VECTORS[1]), ROWS
    cache = DynamicCache(config=llama.config)
    logits(llama, input_ids=torch.tensor([row[:6]]), past_key_values=cache, use_cache=True)
    with inject(llama, injection):
        found = new_tokens(llama, {"input_ids": torch.tensor([row])}, past_key_values=cache)
    layer = llama.model.layers[1]
    assert found == [oracle.greedy(llama, layer, row, 10, change(injection), NEW)]


@pytest.mark.parametrize("masked", [False, True])
def test_a_call_given_a_cache_is_changed_at_the_last_token_given_to_it(
    llama: PreTrainedModel, masked: bool
) -> None:
    injection, (row, *_) = Injection(1, VECTORS[1]), ROWS
    given: dict[str, Any] = {"past_key_values": DynamicCache(config=llama.config)}
    logits(llama, input_ids=torch.tensor([row[:6]]), use_cache=True, **given)
    if masked:
        given["attention_mask"] = torch.ones(1, 11)
    with inject(llama, injection):
        found = logits(llama, input_ids=torch.tensor([row[6:]]), use_cache=True, **given)[0]
    expected = oracle.changed_logits(llama, llama.model.layers[1], row, 10, change(injection))
    torch.testing.assert_close(found, expected[6:], atol=1e-5, rtol=1e-5)


def test_several_injections_at_once_each_change_their_layer(
    model: PreTrainedModel, layers: list[nn.Module]
) -> None:
    first, second = Injection(0, VECTORS[0], 1.0), Injection(2, VECTORS[2], 0.5)
    with inject(model, [first, second]):
        found = new_tokens(model, padded(ROWS, LEFT))
    for row, own in zip(ROWS, found, strict=True):
        place = len(row) - 1
        with oracle.changed(layers[0], place, change(first)):
            assert own == oracle.greedy(model, layers[2], row, place, change(second), NEW)


def test_strength_zero_leaves_every_bit_as_it_was(model: PreTrainedModel) -> None:
    batch = padded(ROWS, LEFT)
    scores: dict[str, Any] = {"return_dict_in_generate": True, "output_logits": True}
    plain, plain_run = logits(model, **batch), model.generate(**batch, **GREEDY, **scores)
    with inject(model, [Injection(layer, VECTORS[layer], 0.0) for layer in range(LAYERS)]):
        assert torch.equal(logits(model, **batch), plain)
        run = model.generate(**batch, **GREEDY, **scores)
    assert torch.equal(run.sequences, plain_run.sequences)
    for own, expected in zip(run.logits, plain_run.logits, strict=True):
        assert torch.equal(own, expected)


def test_no_injection_and_no_call_change_nothing(llama: PreTrainedModel) -> None:
    ids = torch.tensor([ROWS[0]])
    plain = logits(llama, ids)
    with inject(llama, []):
        assert torch.equal(logits(llama, ids), plain)
    with inject(llama, Injection(1, VECTORS[1])):
        pass
    assert torch.equal(logits(llama, ids), plain)


def test_nested_injections_change_a_state_in_the_order_in_which_they_were_opened(
    llama: PreTrainedModel,
) -> None:
    row, layer = ROWS[0], llama.model.layers[1]
    ids = torch.tensor([row])
    replacing, adding = Injection(1, VECTORS[0]), Injection(1, VECTORS[1], 2.0)
    both = [Injection(1, VECTORS[0] + 2.0 * VECTORS[1])]
    for outer, inner, result in ((replacing, adding, both[0]), (adding, replacing, replacing)):
        with inject(llama, outer):
            with inject(llama, inner):
                nested, run = logits(llama, ids), new_tokens(llama, {"input_ids": ids})
            alone = logits(llama, ids)
        expected = oracle.changed_logits(llama, layer, row, 10, change(result))
        torch.testing.assert_close(nested[0], expected)
        assert run == [oracle.greedy(llama, layer, row, 10, change(result), NEW)]
        expected = oracle.changed_logits(llama, layer, row, 10, change(outer))
        torch.testing.assert_close(alone[0], expected)


def test_nested_injections_may_stand_at_different_positions(llama: PreTrainedModel) -> None:
    row, (first, *_, last) = ROWS[0], llama.model.layers
    early, late = Injection(0, VECTORS[0]), Injection(3, VECTORS[3])
    with inject(llama, early, [4]), inject(llama, late):
        found = logits(llama, torch.tensor([row]))[0]
    with oracle.changed(first, 4, change(early)):
        expected = oracle.changed_logits(llama, last, row, 10, change(late))
    torch.testing.assert_close(found, expected)


def test_contexts_may_close_in_another_order_than_they_opened(llama: PreTrainedModel) -> None:
    ids, layer = torch.tensor([ROWS[0]]), llama.model.layers[1]
    first, second = Injection(1, VECTORS[0]), Injection(1, VECTORS[1])
    a, b = inject(llama, first), inject(llama, second)
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    expected = oracle.changed_logits(llama, layer, ROWS[0], 10, change(second))
    torch.testing.assert_close(logits(llama, ids)[0], expected)
    b.__exit__(None, None, None)
    torch.testing.assert_close(logits(llama, ids)[0], oracle.logits(llama, ROWS[0]))


def test_two_models_are_steered_apart(llama: PreTrainedModel) -> None:
    other = tiny_model("llama", seed=1)
    ids = torch.tensor([ROWS[0]])
    with inject(llama, Injection(1, VECTORS[0])), inject(other, Injection(1, VECTORS[1])):
        found, others = logits(llama, ids), logits(other, ids)
    for each, seen, vector in ((llama, found, VECTORS[0]), (other, others, VECTORS[1])):
        layer = each.model.layers[1]
        expected = oracle.changed_logits(each, layer, ROWS[0], 10, change(Injection(1, vector)))
        torch.testing.assert_close(seen[0], expected)


def traces(model: PreTrainedModel) -> list[Any]:
    """Every hook, and every attribute of the model's own."""
    hooks = [
        (module._forward_hooks, module._forward_pre_hooks, module._forward_hooks_with_kwargs)
        for module in model.modules()
    ]
    return [*(h for own in hooks for h in own if h), dict(vars(model))]


@pytest.mark.parametrize("failure", [None, "in the body", "in a call", "in a generation"])
def test_nothing_is_left_afterwards_also_after_an_exception(
    model: PreTrainedModel, layers: list[nn.Module], failure: str | None
) -> None:
    before, ids = traces(model), torch.tensor([ROWS[0]])
    plain = logits(model, ids)

    def fail(state: Tensor) -> Tensor:
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt) if failure else nullcontext(),
        inject(model, [Injection(layer, VECTORS[layer]) for layer in range(LAYERS)]),
    ):
        assert not torch.equal(logits(model, ids), plain)
        if failure == "in the body":
            raise KeyboardInterrupt
        if failure:
            with oracle.changed(layers[2], 0, fail):
                logits(model, ids) if failure == "in a call" else new_tokens(
                    model, {"input_ids": ids}
                )
    assert traces(model) == before
    assert len(before) == 1
    assert torch.equal(logits(model, ids), plain)


def test_a_call_that_fails_leaves_the_next_one_steered(llama: PreTrainedModel) -> None:
    ids, injection = torch.tensor([ROWS[0]]), Injection(1, VECTORS[1])
    expected = oracle.changed_logits(llama, llama.model.layers[1], ROWS[0], 10, change(injection))
    with inject(llama, injection):
        with pytest.raises(IndexError):
            logits(llama, ids + 10_000)
        torch.testing.assert_close(logits(llama, ids)[0], expected)


def test_a_method_that_someone_else_replaced_is_put_back(llama: PreTrainedModel) -> None:
    calls: list[None] = []
    own = llama.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return own(*args, **kwargs)

    llama.forward = forward
    llama.forward.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]
    with inject(llama, []):
        calls.clear()
        logits(llama, torch.tensor([ROWS[0]]))
    assert len(calls) == 1
    assert llama.forward is forward


def test_a_model_is_taken_apart_once(llama: PreTrainedModel) -> None:
    forwards: list[None] = []
    llama.register_forward_pre_hook(lambda *_: forwards.append(None))
    with inject(llama, Injection(1, VECTORS[1])):
        pass
    assert forwards
    forwards.clear()
    with inject(llama, Injection(1, VECTORS[1])), inject(llama, Injection(2, VECTORS[2])):
        pass
    assert not forwards


def test_a_model_that_was_steered_can_be_freed() -> None:
    model = tiny_model("llama")
    kept = weakref.ref(model)
    with inject(model, Injection(1, VECTORS[1])):
        logits(model, torch.tensor([ROWS[0]]))
    del model
    gc.collect()
    assert kept() is None


def test_a_model_whose_layers_were_exchanged_is_taken_apart_anew(llama: PreTrainedModel) -> None:
    injection, ids = Injection(1, VECTORS[1]), torch.tensor([ROWS[0]])
    with inject(llama, injection):
        pass
    llama.model.layers = tiny_model("llama", seed=5).model.layers
    with inject(llama, injection):
        found = logits(llama, ids)[0]
    layer = llama.model.layers[1]
    expected = oracle.changed_logits(llama, layer, ROWS[0], 10, change(injection))
    torch.testing.assert_close(found, expected)


def test_a_model_in_training_stays_so(llama: PreTrainedModel) -> None:
    llama.train()
    llama.model.layers[2].eval()
    modes = [module.training for module in llama.modules()]
    with inject(llama, Injection(1, VECTORS[1])):
        assert [module.training for module in llama.modules()] == modes


def test_gradients_reach_the_vector(llama: PreTrainedModel) -> None:
    vector = VECTORS[1].clone().requires_grad_()
    with inject(llama, Injection(1, vector)):
        llama(torch.tensor([ROWS[0]])).logits[0, -1, 5].backward()
    assert vector.grad is not None
    assert vector.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("injection", "message"),
    [
        (Injection(4, VECTORS[0]), "layer=4 is out of range: the model has 4 layers, 0 to 3"),
        (Injection(-1, VECTORS[0]), "layer=-1 is out of range"),
        (Injection(0, torch.zeros(31)), r"shape \[31\] does not fit .* \[32\]"),
        (Injection(0, torch.zeros(1, 32)), r"shape \[1, 32\] does not fit"),
        (Injection(0, torch.full((32,), torch.nan)), "NaN or infinity"),
    ],
)
def test_an_injection_that_does_not_fit_is_refused(
    llama: PreTrainedModel, injection: Injection, message: str
) -> None:
    with pytest.raises(UsageError, match=message), inject(llama, [injection]):
        pass
    assert "generate" not in vars(llama)


@pytest.mark.parametrize("positions", [[0, 1], [0, 1, 11], [0, 1, -1], []])
def test_positions_that_do_not_fit_the_batch_are_refused(
    llama: PreTrainedModel, positions: list[int]
) -> None:
    batch = padded(ROWS, LEFT)
    with inject(llama, Injection(0, VECTORS[0]), positions):
        for run in (logits, new_tokens):
            given = {"batch": batch} if run is new_tokens else batch
            with pytest.raises(UsageError, match="does not fit a batch of 3 rows and 11 tokens"):
                run(llama, **given)


def test_a_mask_that_names_no_place_is_refused(llama: PreTrainedModel) -> None:
    batch = padded(ROWS, LEFT)
    ids, mask = batch["input_ids"], batch["attention_mask"].clone()
    mask[1] = 0
    with inject(llama, Injection(0, VECTORS[0])):
        with pytest.raises(UsageError, match="row 1 has no real token"):
            logits(llama, input_ids=ids, attention_mask=mask)
        with pytest.raises(UsageError, match="attention_mask is not"):
            logits(llama, input_ids=ids, attention_mask=torch.ones(3, 1, 11, 11))
    with inject(llama, Injection(0, VECTORS[0]), [1, 2, 3]):
        logits(llama, input_ids=ids, attention_mask=mask)


def test_a_generation_from_nothing_is_refused(llama: PreTrainedModel) -> None:
    with (
        inject(llama, Injection(0, VECTORS[0])),
        pytest.raises(UsageError, match="no batch of tokens to inject into"),
    ):
        llama.generate(max_new_tokens=1)


def test_what_is_no_causal_transformers_model_is_refused() -> None:
    config = T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    injection = Injection(0, VECTORS[0])
    encoder_decoder = T5ForConditionalGeneration(config).eval()
    with pytest.raises(UsageError, match="encoder-decoder"), inject(encoder_decoder, injection):
        pass
    wrapped: Any = nn.Sequential()
    with (
        pytest.raises(UsageError, match="Sequential is not a transformers model"),
        inject(wrapped, injection),
    ):
        pass


@pytest.mark.parametrize("shape", [(1, 11), (4, 11), (3, 9)])
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, int], llama: PreTrainedModel) -> None:
    ids = padded(ROWS, LEFT)["input_ids"]
    with (
        inject(llama, Injection(0, VECTORS[0])),
        pytest.raises(UsageError, match=r"attention_mask \[.* does not fit a batch of 3 rows and"),
    ):
        llama.generate(ids, attention_mask=torch.ones(shape, dtype=torch.long), max_new_tokens=1)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (None, "None is not an Injection"),
        ([None], "is not an Injection"),
        (Injection(1.0, VECTORS[0]), "layer=1.0 is not accepted"),  # type: ignore[arg-type]
        (Injection(9, VECTORS[0]), "layer=9 is out of range"),
        (Injection(0, [1.0] * 32), "a list, not a tensor"),  # type: ignore[arg-type]
        (Injection(0, VECTORS[0], float("nan")), "strength=nan is not accepted"),
        (Injection(0, VECTORS[0], "2"), "strength='2' is not accepted"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_injection_is_refused(wanted: Any, message: str, llama: PreTrainedModel) -> None:
    with pytest.raises(UsageError, match=message), inject(llama, wanted):
        pass


@pytest.mark.parametrize("positions", [[1.7, 2.2], [True, False], "12"])
def test_positions_that_are_no_whole_numbers_are_refused(
    positions: Any, llama: PreTrainedModel
) -> None:
    with (
        pytest.raises(UsageError, match="are no whole numbers"),
        inject(llama, Injection(0, VECTORS[0]), positions),
    ):
        pass
