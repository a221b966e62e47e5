"""Slow counterparts: one unpadded row, a whole forward without a cache, layers by their names.

Nothing here calls harness_ext; edits are made by replacing a layer's `forward`, not by hooks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.models import VOCABULARY

LEFT, RIGHT = "left", "right"
Change = Callable[[Tensor], Tensor]

_PATHS: Mapping[str, str] = {
    "mpt": "transformer.blocks",
    **dict.fromkeys(("gpt_neox", "gpt_neox_sequential"), "gpt_neox.layers"),
    **dict.fromkeys(("opt", "opt_projected"), "model.decoder.layers"),
    **dict.fromkeys(
        ("bloom", "codegen", "gpt2", "gpt_bigcode", "gpt_neo", "gptj"),
        "transformer.h",
    ),
    **dict.fromkeys(("falcon", "falcon_alibi", "falcon_grouped"), "transformer.h"),
}


def decoder_layers(family: str, model: PreTrainedModel) -> list[nn.Module]:
    """The decoder layers, by the family's own name for them."""
    return list(model.get_submodule(_PATHS.get(family, "model.layers")))  # type: ignore[call-overload]


def token_rows(*lengths: int, seed: int = 0) -> list[list[int]]:
    """Random rows of ordinary tokens of these lengths."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]


def random_vectors(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 + seed))


def states(model: PreTrainedModel, ids: Sequence[int]) -> Tensor:
    """The last token's states after each layer, [layers, width], by transformers' own output.

    Its last entry is after the final norm (or projection), so that of the last layer is what this
    was given: the module outside the layers whose output is that entry.
    """
    normed: dict[int, tuple[Tensor, Tensor]] = {}

    def note(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if args and isinstance(args[0], Tensor) and isinstance(output, Tensor):
            normed[len(normed)] = (args[0], output)

    handles = [
        m.register_forward_hook(note)
        for m in model.modules()
        if "Norm" in type(m).__name__ or isinstance(m, nn.Linear)
    ]
    try:
        with torch.no_grad():
            hidden = model(
                input_ids=torch.tensor([ids]), use_cache=False, output_hidden_states=True
            ).hidden_states
    finally:
        for handle in handles:
            handle.remove()
    before = [
        given
        for given, made in normed.values()
        if torch.equal(made.flatten(), hidden[-1].flatten())
    ]
    assert len(before) == 1
    return torch.stack(
        [*(entry[0, -1] for entry in hidden[1:-1]), before[0].reshape(len(ids), -1)[-1]]
    )


@contextmanager
def changed(layer: nn.Module, position: int, change: Change) -> Iterator[None]:
    """While open, the layer's output at `position` of every row goes through `change`."""
    original, nested = layer.forward, "forward" in vars(layer)

    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        hidden = (output[0] if isinstance(output, tuple) else output).clone()
        hidden[:, position] = change(hidden[:, position])
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    layer.forward = forward
    try:
        yield
    finally:
        if nested:
            layer.forward = original
        else:
            del layer.forward


def logits(model: PreTrainedModel, ids: Sequence[int]) -> Tensor:
    """[positions, vocabulary]."""
    with torch.no_grad():
        found: Tensor = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    return found


def changed_logits(
    model: PreTrainedModel, layer: nn.Module, ids: Sequence[int], position: int, change: Change
) -> Tensor:
    """[positions, vocabulary], under that change."""
    with changed(layer, position, change):
        return logits(model, ids)


def greedy(
    model: PreTrainedModel,
    layer: nn.Module,
    ids: Sequence[int],
    position: int,
    change: Change,
    new: int,
) -> list[int]:
    """`new` tokens, each by a whole forward with the change at the prompt's position."""
    row = list(ids)
    for _ in range(new):
        row.append(int(changed_logits(model, layer, row, position, change)[-1].argmax()))
    return row[len(ids) :]


def padded(rows: list[list[int]], side: str) -> tuple[Tensor, Tensor, list[int]]:
    """Ids, attention mask, and how far each row is shifted."""
    width = max(map(len, rows))
    fill = [[7] * (width - len(row)) for row in rows]  # an ordinary token: the mask has to serve
    pairs = list(zip(rows, fill, strict=True))
    ids = [more + row if side == LEFT else row + more for row, more in pairs]
    real = [[1] * len(row) for row, _ in pairs]
    nothing = [[0] * len(more) for _, more in pairs]
    mask = [n + r if side == LEFT else r + n for r, n in zip(real, nothing, strict=True)]
    shifts = [len(more) if side == LEFT else 0 for more in fill]
    return torch.tensor(ids), torch.tensor(mask), shifts


def padded_logits(model: PreTrainedModel, ids: Tensor, mask: Tensor) -> Tensor:
    """[rows, positions, vocabulary] of a batch padded on either side."""
    given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
    if not mask[:, 0].all() and "position_ids" in inspect.signature(model.forward).parameters:
        given["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        found: Tensor = model(**given).logits
    return found


def generated(model: PreTrainedModel, rows: list[list[int]], **settings: Any) -> list[list[int]]:
    """Five new tokens after each row, by transformers' own generation on a batch."""
    ids, mask, _ = padded(rows, LEFT)
    found = model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=5,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        **settings,
    )
    return found[:, ids.shape[1] :].tolist()
