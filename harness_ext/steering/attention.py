"""Where attention heads write: found by structure, proven by runs, as :mod:`.anatomy` is.

A head's output is its slice of what a layer's *output projection* is given. The projection is the
first module with weights whose input at one token depends on other tokens: what comes before it
looks at one token at a time. Its result may go through norms (Gemma 2 and 3, OLMo 2) and be scaled
(Granite) before it joins the residual stream; both are followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.replay import Arguments, LayerCall, ModuleCall, layer_calls

_TOLERANCE = 0.02
"""Relative error up to which a proof counts as passed: coarse dtypes round at about 0.004."""


@dataclass(frozen=True, eq=False)
class Norm:
    """A norm as the map x ↦ scale(x) · gain ∘ c(x) + offset, c the identity or x less its mean.

    offset: [width], what it makes of zeros.
    """

    module: nn.Module
    centers: bool
    offset: Tensor

    def share(self, part: Tensor, whole: Tensor, normed: Tensor) -> Tensor:
        """What becomes of `part`, one of the summands of `whole`, under the scale of `whole`.

        part: [rows, parts, width]; whole, normed: [rows, width], the norm's input and output.
        """
        inner, factor = self._centered(part), self._factor(whole, normed)
        return inner * factor.unsqueeze(1)

    def _centered(self, x: Tensor) -> Tensor:
        return x - x.mean(dim=-1, keepdim=True) if self.centers else x

    def _factor(self, whole: Tensor, normed: Tensor) -> Tensor:
        """scale · gain, [rows, width]."""
        inner = self._centered(whole)
        return torch.where(inner == 0, 0, (normed - self.offset.to(normed.device)) / inner)


@dataclass(frozen=True, eq=False)
class Output:
    """How one layer's attention writes to the residual stream.

    projection: from the heads' outputs [..., heads · size] to [..., width]; it is only ever called
    or hooked, so that adapters and quantised weights serve. norms: what its result goes through, in
    order. scale: the factor it is added with.
    """

    projection: nn.Module
    norms: tuple[Norm, ...]
    scale: float


@dataclass(frozen=True)
class Attention:
    """The attention heads of a model.

    heads: per layer. size: numbers that a head hands to the projection. outputs: one per layer.
    """

    anatomy: Anatomy
    heads: int
    size: int
    outputs: tuple[Output, ...]

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.outputs)


def dissect_attention(anatomy: Anatomy) -> Attention:
    """Find and prove where the heads of each layer write.

    Raises :class:`UsageError` where attention cannot be split into heads, or a layer has none.
    """
    model = anatomy.model
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    if not isinstance(heads, int):
        raise UsageError(
            f"{type(model).__name__} has layers of {heads} attention heads; head methods need the "
            "same number in every layer. Use tv, or none."
        )
    layers = [LayerCall.of(layer, args) for layer, args in layer_calls(anatomy)]
    name = _projection_name(anatomy, layers[0], heads)
    outputs, widths = [], set()
    for number, record in enumerate(layers):
        call = next((call for call in record.calls if call.name == name), None)
        if call is None or call.width_out != anatomy.hidden_size:
            raise _unsplit(
                anatomy, f"layer {number} has no output projection {name!r}, as layer 0 has"
            )
        widths.add(call.width_in)
        outputs.append(_output(anatomy, number, record, call))
    if len(widths) > 1:
        raise _unsplit(anatomy, f"the heads of its layers differ in width ({sorted(widths)})")
    return Attention(anatomy, heads, widths.pop() // heads, tuple(outputs))


def _unsplit(anatomy: Anatomy, reason: str) -> UsageError:
    return UsageError(
        f"the attention of {type(anatomy.model).__name__} cannot be split into heads: {reason}. "
        "Head methods and ablation do not work with this model; task vectors (tv) do."
    )


def _projection_name(anatomy: Anatomy, first: LayerCall, heads: int) -> str:
    """The name, within a layer, of the output projection."""
    layer, args = layer_calls(anatomy, (14, 11, 12, 13))[0]
    other = LayerCall.of(layer, args).calls
    level = LayerCall.of(layer, _levelled(first.args, anatomy.hidden_size)).calls
    refused = "layer 0 has no projection that averages of values go through"
    for call, again, same in zip(first.calls, other, level, strict=True):
        if not call.has_matrix or call.width_out != anatomy.hidden_size or not call.given:
            continue
        here, there = call.given[0], again.given[0]
        if here.dim() != 3 or torch.equal(here[:, -1], there[:, -1]):
            continue
        if call.width_in % heads:
            refused = (
                f"its output projection {call.name!r} takes {call.width_in} numbers, no multiple "
                f"of the {heads} heads"
            )
        elif _averages(same.given[0], heads):
            return call.name
    raise _unsplit(anatomy, refused)


def _levelled(args: Arguments, width: int) -> Arguments:
    """A layer's arguments with the first token's state at every position."""

    def level(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dim() == 3 and value.shape[-1] == width:
            return value[:, :1].expand_as(value).contiguous()
        return value

    return (level(args[0][0]), *args[0][1:]) if args[0] else (), {
        name: level(value) if name == "hidden_states" else value for name, value in args[1].items()
    }


def _averages(inputs: Tensor, heads: int) -> bool:
    """Whether heads' outputs [1, positions, heads · size] are averages of equal values.

    An attention head averages values over positions. Where these are all equal, so are its outputs
    (or multiples of each other, where attention sinks take a part); recurrent layers, which
    accumulate, and mixtures across heads do not have that.
    """
    slices = inputs[0].float().unflatten(-1, (heads, -1))
    first, last = slices[0], slices[-1]
    along = (first * last).sum(-1) ** 2
    norms = (first**2).sum(-1) * (last**2).sum(-1)
    return bool((along >= (1 - _TOLERANCE) ** 2 * norms).all())


def _output(anatomy: Anatomy, number: int, record: LayerCall, projection: ModuleCall) -> Output:
    norms: list[Norm] = []
    last, position, calls = projection, record.calls.index(projection), record.calls
    while True:
        taken = [
            (i, call)
            for i, call in enumerate(calls)
            if i > position and any(value is last.returned for value in call.given)
        ]
        if not taken:
            break
        position, last = taken[0]
        if last.returned is not last.given[0] and not isinstance(last.module, nn.Dropout):
            norm = _as_norm(last.module, last.given[0], anatomy.hidden_size)
            if norm is None:
                raise _unsplit(
                    anatomy,
                    f"in layer {number} the result of attention goes through a "
                    f"{type(last.module).__name__}, which is no norm",
                )
            norms.append(norm)
    scale = _scale(record, position)
    if scale is None:
        raise _unsplit(
            anatomy,
            f"what it adds in layer {number} does not reach the residual stream as it is (a norm "
            "behind the addition, as in the oldest models, does that)",
        )
    return Output(projection.module, tuple(norms), scale)


@torch.no_grad()
def _as_norm(module: nn.Module, like: Tensor, width: int) -> Norm | None:
    """The module as a :class:`Norm`, or None where it is none."""
    generator = torch.Generator().manual_seed(0)
    probe = torch.randn(2, width, generator=generator).to(like)
    offset = module(torch.zeros_like(probe))[0]
    for centers in (False, True):
        norm = Norm(module, centers, offset)
        factors = norm._factor(probe, module(probe)).float()
        # The gain is the input's own affair in no norm: only the scale may differ.
        ratio = (factors[0] @ factors[1]) / (factors[1] @ factors[1])
        if (factors[0] - ratio * factors[1]).norm() <= _TOLERANCE * factors[0].norm():
            return norm
    return None


def _scale(record: LayerCall, last: int) -> float | None:
    """The factor with which the result of call `last` enters the layer's output, or None.

    Found by holding all later modules at what they returned: what remains is the direct way.
    """
    later = enumerate(record.calls[last + 1 :], last + 1)
    held = {number: call.held for number, call in later if call.is_leaf}
    result = record.calls[last].held
    generator = torch.Generator().manual_seed(1)
    plain = record.replay({**held, last: result})
    # As large as the state it is added to: a smaller one is lost in half precision's rounding.
    size = torch.maximum(plain.square().mean().sqrt(), result.float().std())
    change = (torch.randn(result.shape, generator=generator).to(plain) * size).to(result)
    moved = (record.replay({**held, last: result + change}) - plain).flatten()
    change = change.float().flatten()
    factor = float(moved @ change / (change @ change))
    direct = (moved - factor * change).norm() <= 2 * _TOLERANCE * moved.norm()
    return factor if direct and factor else None
