"""Task vectors from Python: made from pairs, injected while a model runs.

For models and tokenizers of transformers that are at hand; nothing of lm-eval takes part.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from harness_ext.config import AUTO, Auto, Mode, parse_model_args
from harness_ext.errors import UsageError
from harness_ext.methods.base import Bench
from harness_ext.methods.task_vector import TaskVector
from harness_ext.steering.anatomy import Anatomy, dissect
from harness_ext.steering.calls import Everywhere, is_steered, steered_calls
from harness_ext.steering.inject import Injection
from harness_ext.steering.pairs import PairContext
from harness_ext.steering.prompts import PromptEncoder

__all__ = ["Injection", "inject", "task_vector"]


def task_vector(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Iterable[tuple[str, str | Sequence[str]]],
    *,
    layer: int | Auto = AUTO,
    mode: Mode = "replace",
    strength: float | Auto = AUTO,
    demos: int = 10,
    queries: int = 1,
    average: int = 30,
    dev: int = 50,
    template: str = "Example: {x} →",
    delimiter: str = " ",
    separator: str = "\n",
    seed: int = 0,
) -> Injection:
    """One reusable task vector for the map that `pairs` (x, y) show, ready for :func:`inject`.

    It is the mean, over `average` prompts of `demos` demonstrations each, of the state at the
    prompt's last cue after one layer (Hendel et al. 2023, arXiv 2310.15916), as
    `method=tv, average=N` makes it in an evaluation. Inject it into prompts written with the same
    template, such as `template.replace("{x}", "dog")`, at the cue that ends them.

    pairs: y is the answer, or several accepted ones, of which demonstrations show the first. A pair
    and its mirror, (a, b) and (b, a), never stand in one prompt.
    layer: an index from 0, or `auto`: the one whose injection begins the most answers right. It is
    tried on the pairs themselves, at most `dev` of them, each with the mean over the prompts that
    do not hold it.
    mode, strength: `replace` puts the vector in the place of the state, `add` adds strength ·
    vector; `auto` tries 0.5, 1, 2 and 4 in the same way.
    demos, queries: of each extraction prompt; dummy queries, each after the same demonstrations,
    are averaged over. They take demos + queries + 1 pairs.
    template: holds {x} once and ends in the cue, which no word may contain. delimiter stands
    between cue and answer, separator between demonstrations.
    seed: of all draws; the result is a function of the arguments alone.

    Returns the layer, the vector [width] in float32 and the strength (None: replace). Raises
    :class:`UsageError` for pairs, a template or a model that cannot serve, and as
    :func:`harness_ext.config.parse_model_args` does for values out of range.
    """
    context = PairContext.of(pairs, template, delimiter, separator)
    config, _ = parse_model_args(
        {
            "method": "tv",
            "layer": layer,
            "mode": mode,
            "strength": strength,
            "demos": demos,
            "queries": queries,
            "average": average,
            "dev": dev,
            "cue": context.cue,
            "seed": seed,
        }
    )
    if not config.average:
        raise UsageError(
            "average=0 is not accepted: a vector of its own for each tested query needs the tested "
            "queries. average takes a whole number ≥ 1 here."
        )
    context.check_room(config.demos, config.queries)
    if not tokenizer.is_fast:
        raise UsageError(
            f"{type(tokenizer).__name__} gives no character offsets, so the cue cannot be found in "
            "its tokens. Pass the model's fast tokenizer (AutoTokenizer loads it by default)."
        )
    anatomy = _anatomy(model)
    _check_layer(anatomy, config.layer)
    if is_steered(model):
        raise UsageError("inject is open for this model; make the vector before or after.")
    bench = Bench(
        anatomy=anatomy,
        encoder=PromptEncoder(tokenizer, lambda text: list(tokenizer(text).input_ids), context.cue),
        # A pair asked about twice would meet the same vector again.
        config=replace(config, dev=min(config.dev, len(context.pool()))),
        max_length=_max_length(model, tokenizer),
    )
    _check_ending(bench, context)
    with _evaluating(model):
        [[[made]]] = TaskVector(bench).plan(context, context.pool()[:1]).injections
    # The vectors of the other layers, of which this one is a part, are not kept with it.
    return replace(made, vector=made.vector.clone())


@contextmanager
def inject(
    model: PreTrainedModel,
    injection: Injection | Sequence[Injection],
    positions: Sequence[int] | Tensor | None = None,
) -> Iterator[None]:
    """While open, `model(...)` and `model.generate(...)` run with the injection.

    It goes into every row of the batch, at the last real token: by `attention_mask` [rows, tokens],
    whichever side is padded; without a mask, the last column. In a generation it is applied once,
    to the prompt, and never to later tokens, with and without a cache; every beam and every
    returned sequence of a row carries it. `model(...)` given a cache is a call like any other: it
    injects at the last of the tokens given to it.

    injection: one, or several (at two layers, say), each with a vector [width].
    positions: [rows], the columns to inject at instead, in the ids as given, padding counted.

    Contexts may be nested; where two change the same state, the inner one comes last. Afterwards,
    also after an exception, the model is as before. The first use of a model runs it a few times on
    four tokens, to prove that injections work in it. Raises :class:`UsageError` for a model in
    which they do not, for a layer or a vector that does not fit it and, in a call, for positions or
    a mask that does not fit the batch.
    """
    several = (injection,) if isinstance(injection, Injection) else injection
    if not isinstance(several, Sequence) or not all(isinstance(e, Injection) for e in several):
        raise UsageError(
            f"{injection!r} is not an Injection; inject takes one, or a sequence of them."
        )
    anatomy = _anatomy(model)
    for each in several:
        _check_injection(anatomy, each)
    columns = None if positions is None else _columns(positions)
    with steered_calls(anatomy, Everywhere(several, columns)):
        yield


# Without the model itself, which would then never be freed.
_parts: weakref.WeakKeyDictionary[PreTrainedModel, dict[str, Any]] = weakref.WeakKeyDictionary()


def _anatomy(model: PreTrainedModel) -> Anatomy:
    """The model's parts, found and proven at its first use, and again where layers were changed."""
    if not isinstance(model, PreTrainedModel):
        raise UsageError(
            f"{type(model).__name__} is not a transformers model; pass the PreTrainedModel itself, "
            "not what wraps it."
        )
    known = _parts.get(model)
    if known is None or not set(known["layers"]) <= set(model.modules()):
        with _evaluating(model):
            found = dissect(model)
        known = {f.name: getattr(found, f.name) for f in fields(found) if f.name != "model"}
        _parts[model] = known
    return Anatomy(model=model, **known)


@contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[None]:
    """While open, the model is in evaluation mode: dropout would disturb what is read."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _check_layer(anatomy: Anatomy, layer: int | Auto) -> None:
    n_layers = len(anatomy.layers)
    if layer != AUTO and not 0 <= layer < n_layers:
        raise UsageError(
            f"layer={layer} is out of range: the model has {n_layers} layers, 0 to {n_layers - 1}."
        )


def _columns(positions: Sequence[int] | Tensor) -> list[int]:
    given = positions.tolist() if isinstance(positions, Tensor) else list(positions)
    if not all(isinstance(p, int) and not isinstance(p, bool) for p in given):
        raise UsageError(f"positions={given!r} are no whole numbers, one for each row.")
    return given


def _check_injection(anatomy: Anatomy, injection: Injection) -> None:
    layer, vector, strength = injection.layer, injection.vector, injection.strength
    if not isinstance(layer, int) or isinstance(layer, bool):
        raise UsageError(f"layer={layer!r} is not accepted; an Injection takes a layer index.")
    _check_layer(anatomy, layer)
    number = isinstance(strength, int | float) and not isinstance(strength, bool)
    if strength is not None and not (number and math.isfinite(strength)):
        raise UsageError(
            f"strength={strength!r} is not accepted; an Injection takes a finite number, or None "
            "to replace the state."
        )
    if not isinstance(vector, Tensor):
        raise UsageError(f"the vector is a {type(vector).__name__}, not a tensor.")
    if tuple(vector.shape) != (anatomy.hidden_size,):
        raise UsageError(
            f"a vector of shape {list(vector.shape)} does not fit the model, whose states have "
            f"shape [{anatomy.hidden_size}]."
        )
    if not vector.isfinite().all():
        raise UsageError("the vector holds NaN or infinity.")


def _check_ending(bench: Bench, context: PairContext) -> None:
    """A prompt's last token has to be its cue: there the vector is read, and there it is put."""
    prompt = bench.encoder.prompt(context.prompt([], context.pool()[0]))
    after = list(prompt.ids[prompt.cue + 1 :])
    if after:
        raise UsageError(
            f"the tokenizer puts {bench.encoder.tokenizer.decode(after)!r} after the cue of a "
            "prompt, so the answer cannot follow. Load it without an end-of-sequence token "
            "(add_eos_token=False)."
        )


def _max_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens the model takes; some families, and some tokenizers, name no limit."""
    config = model.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None) or sys.maxsize
    return min(limit, int(tokenizer.model_max_length))
