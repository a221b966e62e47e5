"""Where a causal language model keeps what steering touches, found by structure and proven by runs.

No architecture is known by name. The decoder layers are the one list of modules that, in a real
forward, are called once each, in order, and hand on hidden states of the model's width; that the
model reacts to an edit there, and only from the edited position on, is tried before anything is
measured.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from harness_ext.errors import UsageError, overflow_error

_PROBE_LENGTH = 4


@dataclass(frozen=True)
class Anatomy:
    """A causal language model and the parts of it that steering reads and writes."""

    model: PreTrainedModel
    layers: tuple[nn.Module, ...]
    hidden_size: int
    cache_argument: str
    """Name under which `forward` takes the key-value cache (it changed between releases)."""
    bare_head: bool
    """Whether logits are the output embedding's product alone (no soft cap, no scale)."""

    @property
    def device(self) -> torch.device:
        """Device of the input embeddings, where token ids have to be."""
        return _input_device(self.model)

    @property
    def vocabulary_size(self) -> int:
        """Width of a logits row."""
        return int(self.model.get_output_embeddings().weight.shape[0])


def hidden_of(output: Any) -> Tensor:
    """The hidden states [batch, positions, width] in a decoder layer's output.

    Layers return them alone, or first in a tuple (older releases and some families).
    """
    return output[0] if isinstance(output, tuple) else output


def with_hidden(output: Any, hidden: Tensor) -> Any:
    """`output`, with its hidden states replaced by `hidden` [batch, positions, width]."""
    return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


def dissect(model: PreTrainedModel) -> Anatomy:
    """Find and prove the parts of `model`.

    Raises :class:`UsageError` naming what was not found, for encoder-decoder models, models without
    attention, and models in which an edited state does not show in the logits.
    """
    model = _without_adapters(model)
    kind = type(model).__name__
    config = model.config.get_text_config()
    if getattr(model.config, "is_encoder_decoder", False):
        raise UsageError(
            f"{kind} is an encoder-decoder model; taskvec-hf steers decoder-only causal language "
            "models. Use stock hf for it."
        )
    if not getattr(config, "num_attention_heads", None):
        raise UsageError(
            f"{kind} has no attention heads (its configuration names none, as state-space models "
            "do); taskvec-hf needs a causal transformer. Use stock hf for it."
        )
    if model.get_output_embeddings() is None:
        raise UsageError(f"{kind} has no output embedding, so it predicts no next token.")
    anatomy = Anatomy(
        model=model,
        layers=_decoder_layers(model, config.num_hidden_layers, config.hidden_size),
        hidden_size=config.hidden_size,
        cache_argument=_cache_argument(model),
        bare_head=_has_bare_head(model),
    )
    _refuse_overflow(anatomy)
    _prove_injection(anatomy)
    return anatomy


def _without_adapters(model: Any) -> PreTrainedModel:
    """The model itself where PEFT wraps it: adapters act inside it, on its own modules."""
    if not hasattr(model, "get_base_model"):
        return model
    if model.active_peft_config.is_prompt_learning:
        raise UsageError(
            f"the adapter ({model.active_peft_config.peft_type}) puts virtual tokens before the "
            "prompt, which moves every cue; taskvec-hf cannot steer it. Use stock hf for it."
        )
    base: PreTrainedModel = model.get_base_model()
    return base


def _cache_argument(model: PreTrainedModel) -> str:
    accepted = inspect.signature(model.forward).parameters
    for name in ("cache", "past_key_values"):
        if name in accepted:
            return name
    raise UsageError(
        f"{type(model).__name__}.forward takes no key-value cache (neither `cache` nor "
        "`past_key_values`); taskvec-hf cannot steer it."
    )


def _has_bare_head(model: PreTrainedModel) -> bool:
    products: list[Any] = []
    head = model.get_output_embeddings()
    handle = head.register_forward_hook(lambda *call: products.append(call[2]))
    try:
        with torch.no_grad():
            logits = model(input_ids=_probe_ids(model), use_cache=False).logits
    finally:
        handle.remove()
    return len(products) == 1 and torch.equal(products[0], logits)


def _probe_ids(model: PreTrainedModel) -> Tensor:
    """Four different ordinary token ids [1, 4]."""
    return torch.arange(10, 10 + _PROBE_LENGTH, device=_input_device(model)).unsqueeze(0)


def _input_device(model: PreTrainedModel) -> torch.device:
    return next(model.get_input_embeddings().parameters()).device


def _decoder_layers(
    model: PreTrainedModel, n_layers: int, hidden_size: int
) -> tuple[nn.Module, ...]:
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == n_layers
    ]
    calls: list[tuple[nn.Module, tuple[int, ...] | None]] = []

    def note(module: nn.Module, _: Any, output: Any) -> None:
        hidden = hidden_of(output)
        calls.append((module, tuple(hidden.shape) if isinstance(hidden, Tensor) else None))

    handles = [layer.register_forward_hook(note) for _, found in lists for layer in found]
    try:
        with torch.no_grad():
            model(input_ids=_probe_ids(model), use_cache=False)
    finally:
        _remove(handles)
    expected = (1, _PROBE_LENGTH, hidden_size)
    proven = [
        tuple(found)
        for _, found in lists
        if [(m, s) for m, s in calls if any(m is layer for layer in found)]
        == [(layer, expected) for layer in found]
    ]
    if not proven:
        names = ", ".join(name for name, _ in lists) or "none"
        raise UsageError(
            f"{type(model).__name__}: decoder layers not found. Looked for a list of {n_layers} "
            f"modules, each called once, in order, and returning hidden states of width "
            f"{hidden_size}; lists of that length: {names}."
        )
    return proven[0]


def _refuse_overflow(anatomy: Anatomy) -> None:
    """States that are not finite for the first tokens at hand would be so for any."""
    sound: list[bool] = []

    def note(_: nn.Module, __: Any, output: Any) -> None:
        sound.append(bool(torch.isfinite(hidden_of(output)).all()))

    handles = [layer.register_forward_hook(note) for layer in anatomy.layers]
    try:
        _logits(anatomy, _probe_ids(anatomy.model))
    finally:
        _remove(handles)
    if not all(sound):
        dtype = str(anatomy.model.dtype).removeprefix("torch.")
        raise overflow_error(sound.index(False), f"{type(anatomy.model).__name__} in {dtype}")


def _prove_injection(anatomy: Anatomy) -> None:
    """An edit of one state must change the logits from its position on, and nothing before it."""
    ids = _probe_ids(anatomy.model)
    position = _PROBE_LENGTH - 2

    def edit(_: nn.Module, __: Any, output: Any) -> Any:
        hidden = hidden_of(output).clone()
        hidden[:, position] = -hidden[:, position].roll(1, dims=-1)
        return with_hidden(output, hidden)

    # Rounded down: after a model's last layer nothing could carry the edit to other positions.
    middle = (len(anatomy.layers) - 1) // 2
    plain = _logits(anatomy, ids)
    handle = anatomy.layers[middle].register_forward_hook(edit)
    try:
        edited = _logits(anatomy, ids)
    finally:
        handle.remove()
    name = type(anatomy.model).__name__
    if torch.equal(plain[:, position], edited[:, position]):
        raise UsageError(
            f"{name}: editing the state after layer {middle} does not change the logits, so a "
            "vector injected there would do nothing."
        )
    if not torch.allclose(plain[:, :position], edited[:, :position], atol=1e-4, rtol=1e-4):
        raise UsageError(
            f"{name}: editing a state changes predictions at earlier positions; the model is not "
            "causal and taskvec-hf cannot steer it."
        )


def _logits(anatomy: Anatomy, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return anatomy.model(input_ids=ids, use_cache=False).logits.float()


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()
