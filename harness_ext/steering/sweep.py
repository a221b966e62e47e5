"""Every layer as a place to inject, scored on development prompts.

Under causal attention an injection at the last cue leaves everything before it untouched. So the
tokens before the cue run once; then the cue (with what follows it) goes through the layers in one
pass in which, after layer l, a copy of its row with the vector of layer l in it joins the batch.
Row-layers: about half of a forward per layer over the cue alone, instead of one over every token.

The plain loop, a forward per layer, is the oracle: before each use the pass has to reproduce it on
a few rows, and where it does not (a family that keeps its cache elsewhere, say) the loop serves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache

from harness_ext.steering.anatomy import Anatomy, hidden_of, with_hidden
from harness_ext.steering.batches import TOKEN_BUDGET, by_length
from harness_ext.steering.inject import Edit, Injection, inject
from harness_ext.steering.prefix import run_prefix

log = logging.getLogger(__name__)

LOGITS_BUDGET = 256 * 2**20
"""Bytes that the logits of one sweep batch may take (float32)."""
TOLERANCE = 2e-3
"""Largest difference of log-probabilities, float32, at which pass and loop count as the same."""


@dataclass(frozen=True)
class SweepPrompt:
    """A development prompt: token ids, the index of its last cue, and what is scored.

    targets: for each of the last tokens, the ids that count as right after it. A prompt ending in
    its cue has one entry, the tokens that begin an accepted answer; a prompt that already holds an
    answer but for its last token has one entry per token of the answer.
    """

    ids: tuple[int, ...]
    cue: int
    targets: tuple[tuple[int, ...], ...]

    @property
    def tail(self) -> int:
        """Tokens from the cue on."""
        return len(self.ids) - self.cue


@dataclass(frozen=True)
class SweepScores:
    """What a model makes of prompts under every candidate: layer l with factor s.

    right: [prompts, layers, strengths], True where the most likely last token is a right one.
    log_prob: the same shape, summed log-probability of the targets.
    plain_right, plain_log_prob: [prompts], the same without injection.
    """

    right: Tensor
    log_prob: Tensor
    plain_right: Tensor
    plain_log_prob: Tensor


def sweep_layers(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None] = (None,),
) -> SweepScores:
    """Score the injection of `vectors` at every layer, all layers in one pass where that is exact.

    vectors: [prompts, layers, width], the vector of each prompt for each layer, injected at its
    last cue. strengths: None replaces the state, a number adds that multiple.
    """
    probe = list(dict.fromkeys((0, len(prompts) - 1)))
    probes = [prompts[i] for i in probe]
    reason = _disagreement(anatomy, probes, vectors[probe], strengths)
    if reason is None:
        return one_pass(anatomy, prompts, vectors, strengths)
    log.warning(
        "%s: the layer sweep runs a forward per layer; the one-pass sweep is not exact here (%s).",
        type(anatomy.model).__name__,
        reason,
    )
    return layer_loop(anatomy, prompts, vectors, strengths)


def _disagreement(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None],
) -> str | None:
    """Why the one-pass sweep cannot be trusted with this model, or None where it can."""
    last = len(anatomy.layers) - 1
    layers = sorted({0, last // 2, last})
    try:
        fast = one_pass(anatomy, prompts, vectors, strengths)
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"
    slow = layer_loop(anatomy, prompts, vectors, strengths, layers)
    tolerance = TOLERANCE if anatomy.model.dtype == torch.float32 else 0.15
    gap = (fast.log_prob[:, layers] - slow.log_prob).abs()
    gap = gap / slow.log_prob.abs().clamp(min=1.0)
    if not torch.isfinite(gap).all() or gap.max() > tolerance:
        return f"log-probabilities differ by {gap.max():.2g}"
    return None


def layer_loop(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None] = (None,),
    layers: Sequence[int] | None = None,
) -> SweepScores:
    """The same by one whole forward per layer and strength (of `layers`, by default all)."""
    wanted = range(len(anatomy.layers)) if layers is None else layers
    candidates: list[list[Injection | None]] = [[None] * len(prompts)]
    candidates += [
        [Injection(layer, own[layer], strength) for own in vectors]
        for layer in wanted
        for strength in strengths
    ]
    results = [_forward(anatomy, prompts, injections) for injections in candidates]
    return _scores(
        right=torch.stack([right for right, _ in results]),
        log_prob=torch.stack([log_prob for _, log_prob in results]),
        n_strengths=len(strengths),
    )


def _forward(
    anatomy: Anatomy, prompts: Sequence[SweepPrompt], injections: Sequence[Injection | None]
) -> tuple[Tensor, Tensor]:
    right = torch.empty(len(prompts), dtype=torch.bool)
    log_prob = torch.empty(len(prompts))
    for batch in _batches(prompts, [(len(p.ids), len(p.targets)) for p in prompts]):
        chosen = [prompts[i] for i in batch]
        edits = [
            Edit(row, prompts[i].cue, injection)
            for row, i in enumerate(batch)
            if (injection := injections[i]) is not None
        ]
        ids = torch.tensor([p.ids for p in chosen], device=anatomy.device)
        with torch.no_grad(), inject(anatomy, edits, len(batch)):
            output = anatomy.model(
                input_ids=ids, use_cache=False, logits_to_keep=len(chosen[0].targets)
            )
        right[batch], log_prob[batch] = _score(output.logits, [p.targets for p in chosen])
    return right, log_prob


def one_pass(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None] = (None,),
) -> SweepScores:
    """The same for all layers at once, by the growing batch the module describes.

    Memory: at most LOGITS_BUDGET for logits, and one layer's expanded keys and values at a time.
    """
    n_rows = len(anatomy.layers) * len(strengths) + 1
    right = torch.empty(n_rows, len(prompts), dtype=torch.bool)
    log_prob = torch.empty(n_rows, len(prompts))
    for batch in _batches(prompts, [(p.tail, len(p.targets)) for p in prompts]):
        kept = len(prompts[batch[0]].targets)
        most = max(1, LOGITS_BUDGET // (4 * anatomy.vocabulary_size * n_rows * kept))
        for first in range(0, len(batch), most):
            part = batch[first : first + most]
            chosen = [prompts[i] for i in part]
            prefix = run_prefix(anatomy, [p.ids[: p.cue] for p in chosen])
            ids = torch.tensor([p.ids[p.cue :] for p in chosen], device=anatomy.device)
            with torch.no_grad(), _growing(anatomy, vectors[part], strengths):
                output = anatomy.model(**prefix.continuation(anatomy, ids), logits_to_keep=kept)
            found = _score(output.logits, [p.targets for p in chosen] * n_rows)
            right[:, part], log_prob[:, part] = (each.view(n_rows, len(part)) for each in found)
    return _scores(right, log_prob, len(strengths))


def _batches(
    prompts: Sequence[SweepPrompt], shapes: Sequence[tuple[int, int]]
) -> Iterator[list[int]]:
    """Batches of prompts of equal shape within the token budget."""
    for shape in sorted(set(shapes)):
        same = [i for i, own in enumerate(shapes) if own == shape]
        for batch in by_length([len(prompts[i].ids) for i in same], TOKEN_BUDGET):
            yield [same[i] for i in batch]


def _score(logits: Tensor, targets: Sequence[tuple[tuple[int, ...], ...]]) -> tuple[Tensor, Tensor]:
    """Whether the most likely last token is right, and the targets' summed log-probability.

    logits: [rows, kept, vocabulary]; targets: per row and kept position, the right ids.
    """
    most = max(len(ids) for row in targets for ids in row)
    padded = [[[*ids, *[-1] * (most - len(ids))] for ids in row] for row in targets]
    filled = torch.tensor(padded, device=logits.device)
    accepted = logits.gather(2, filled.clamp(min=0)).float()
    accepted = accepted.masked_fill(filled < 0, -torch.inf).logsumexp(dim=2)
    log_prob = (accepted - logits.float().logsumexp(dim=2)).sum(dim=1)
    predicted = logits[:, -1].argmax(dim=1, keepdim=True)
    return (filled[:, -1] == predicted).any(dim=1).cpu(), log_prob.cpu()


def _scores(right: Tensor, log_prob: Tensor, n_strengths: int) -> SweepScores:
    """From [1 + layers · strengths, prompts], the plain row first."""
    n_prompts = right.shape[1]
    return SweepScores(
        right=right[1:].T.reshape(n_prompts, -1, n_strengths),
        log_prob=log_prob[1:].T.reshape(n_prompts, -1, n_strengths),
        plain_right=right[0],
        plain_log_prob=log_prob[0],
    )


@contextmanager
def _growing(
    anatomy: Anatomy, vectors: Tensor, strengths: Sequence[float | None]
) -> Iterator[None]:
    """While open, a forward's batch grows after each layer by its rows with that layer's vector.

    vectors: [rows, layers, width]. After the last layer the batch is [plain, layer 0 with each
    strength, layer 1 …], every block in the order of the rows.
    """
    rows = len(vectors)
    cached: dict[int, Any] = {}

    def widen(value: Any, blocks: int) -> Any:
        """Repeat what belongs to the original rows once per block that the batch holds by now."""
        if isinstance(value, Tensor) and value.dim() > 1 and value.shape[0] == rows:
            return value.repeat(blocks, *[1] * (value.dim() - 1))
        if isinstance(value, tuple):
            return tuple(widen(item, blocks) for item in value)
        return value

    def before(layer: int) -> Any:
        blocks = 1 + layer * len(strengths)

        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            for value in (*args, *kwargs.values()):
                if isinstance(value, Cache):
                    cached[layer] = value.layers[layer]
                    order = torch.arange(rows, device=vectors.device).repeat(blocks)
                    cached[layer].batch_select_indices(order)
            widened = {name: widen(value, blocks) for name, value in kwargs.items()}
            return tuple(widen(value, blocks) for value in args), widened

        return hook

    def after(layer: int) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> Any:
            hidden = hidden_of(output)
            grown = [hidden]
            for strength in strengths:
                block = hidden[:rows].clone()
                injection = Injection(layer, vectors[:, layer], strength)
                block[:, 0] = injection.apply(block[:, 0])
                grown.append(block)
            # The expanded keys and values have served; dropping them keeps memory at one layer's.
            cached.pop(layer).batch_select_indices(torch.arange(0, device=vectors.device))
            return with_hidden(output, torch.cat(grown))

        return hook

    with ExitStack() as stack:
        for index, layer in enumerate(anatomy.layers):
            stack.callback(layer.register_forward_pre_hook(before(index), with_kwargs=True).remove)
            stack.callback(layer.register_forward_hook(after(index)).remove)
        yield
