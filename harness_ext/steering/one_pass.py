"""All layers of a sweep in one pass.

Under causal attention an injection leaves everything before it untouched, and one after layer l
also leaves all states up to layer l. So the tokens before a prompt's first injected cue run once;
then the tail, that cue and what follows it, goes through the layers in one pass in which, after
layer l, a copy of its row with the vectors of layer l in it joins the batch.

Token-layers for L layers and prompts of n tokens, t of them in the tail: (n - t)·L before it, and
t·L(L + 1)/2 in it, or t·L(L - 1)/2 where nothing of the plain row is needed; a forward per layer
takes n·L². Injected at the last cue alone, t is 1, zero-shot and N-shot; injected at all cues of a
prompt, t is nearly n, and the pass saves half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache

from harness_ext.steering.anatomy import Anatomy, hidden_of, with_hidden
from harness_ext.steering.batches import TOKEN_BUDGET, of_equal_shape, pad_right
from harness_ext.steering.inject import Injection
from harness_ext.steering.prefix import run_prefix
from harness_ext.steering.scoring import (
    SweepPrompt,
    SweepScores,
    before_head,
    score_logits,
    score_states,
)

ROW_BUDGET = 256 * 2**20
"""Bytes that the rows of one batch may take (float32): in one layer's keys and values, and at the
end of the model in their logits, or the states before these where that suffices. A single prompt's
rows may exceed it."""


def one_pass(
    anatomy: Anatomy,
    prompts: Sequence[SweepPrompt],
    vectors: Tensor,
    strengths: Sequence[float | None] = (None,),
) -> SweepScores:
    """Score the injection of `vectors` at every layer, in one pass.

    vectors: [prompts, layers, cues, width], of which a prompt of fewer cues takes the last.
    strengths: None replaces the state, a number adds that multiple. Memory: at most ROW_BUDGET for
    the rows at the end, and as much for one layer's expanded keys and values at a time.
    """
    candidates = len(anatomy.layers) * len(strengths)
    right = torch.empty(candidates, len(prompts), dtype=torch.bool)
    log_prob = torch.empty(candidates, len(prompts))
    for batch in batches(anatomy, prompts, candidates + 1):
        chosen = [prompts[i] for i in batch]
        cues = torch.tensor([p.cues for p in chosen])
        growth = _Growth(
            vectors=vectors[batch, :, -cues.shape[1] :],
            columns=cues - cues[:, :1],
            strengths=tuple(strengths),
            keeps_plain=any(keeps_plain(prompt, strengths) for prompt in chosen),
            heads=anatomy.model.config.get_text_config().num_attention_heads,
        )
        found = _run(anatomy, chosen, growth)
        right[:, batch], log_prob[:, batch] = (each.view(candidates, -1) for each in found)
    shape = (len(prompts), len(anatomy.layers), len(strengths))
    return SweepScores(right=right.T.reshape(shape), log_prob=log_prob.T.reshape(shape))


def keeps_plain(prompt: SweepPrompt, strengths: Sequence[float | None]) -> bool:
    """Whether the plain rows have to travel along for the injected ones to be made from.

    A replaced state owes nothing to the plain one, and where a tail holds nothing else, no other
    state of the plain row is needed.
    """
    return prompt.tail > len(prompt.cues) or any(strength is not None for strength in strengths)


def batches(
    anatomy: Anatomy, prompts: Sequence[SweepPrompt], rows_each: int, padded: bool = True
) -> Iterator[list[int]]:
    """Batches of prompts alike before their first cue, within the budgets of tokens and of rows.

    rows_each: rows that come of one prompt. padded: whether tails of different lengths may share a
    batch, filled up on the right; they do where the states before the output embedding are at hand,
    from which each row's own last ones can be taken.
    """
    width = anatomy.hidden_size if anatomy.bare_head else anatomy.vocabulary_size
    apart = not (padded and anatomy.bare_head)
    shapes = [(p.cues[0], len(p.cues), len(p.targets), apart and len(p.ids)) for p in prompts]
    for batch in of_equal_shape([len(p.ids) for p in prompts], shapes):
        longest = prompts[batch[0]]
        # A row's numbers at the end of the model, or one layer's keys and values of it.
        numbers = max(width * len(longest.targets), 2 * anatomy.hidden_size * len(longest.ids))
        tokens = (longest.tail if rows_each > 1 else len(longest.ids)) * rows_each
        most = max(1, min(ROW_BUDGET // (4 * numbers * rows_each), TOKEN_BUDGET // tokens))
        for first in range(0, len(batch), most):
            yield batch[first : first + most]


class _Growth:
    """How a batch of equally long prompts grows on its way through the layers.

    The model is given every row from the start, so that whatever it makes for a batch fits; a layer
    sees only the blocks that differ by then: the plain rows where `keeps_plain` (and before the
    first injection), then one block per layer and strength, each in the order of the prompts.
    vectors: [prompts, layers, cues, width]; columns: [prompts, cues], where in the tails they go.
    """

    def __init__(
        self,
        vectors: Tensor,
        columns: Tensor,
        strengths: tuple[float | None, ...],
        keeps_plain: bool,
        heads: int,
    ) -> None:
        self.vectors = vectors
        self.places = (torch.arange(len(vectors)).unsqueeze(1), columns)
        self.strengths = strengths
        self.plain = int(keeps_plain)
        self.rows = len(vectors)
        self.last = vectors.shape[1] - 1
        self.used = self.rows * self.blocks(self.last + 1)
        # What belongs to rows is told by its length: a prime number of rows, and more of them than
        # there are heads, divides no length of anything else. Copies beyond the used ones fill up.
        self.whole = _prime(max(self.used, heads + 1))
        self._cached: dict[int, Any] = {}

    def blocks(self, layer: int) -> int:
        """Blocks that have joined before `layer` runs, the plain ones included if kept."""
        return self.plain + layer * len(self.strengths)

    def before(self, layer: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A layer's arguments cut to the blocks it sees; its cache expanded to them."""
        blocks = max(1, self.blocks(layer))
        for value in (*args, *kwargs.values()):
            if isinstance(value, Cache):
                self._cached[layer] = value.layers[layer]
                order = torch.arange(self.rows, device=self.vectors.device).repeat(blocks)
                self._cached[layer].batch_select_indices(order)
        narrowed = {name: self._narrow(value, blocks) for name, value in kwargs.items()}
        return tuple(self._narrow(value, blocks) for value in args), narrowed

    def after(self, layer: int, output: Any) -> Any:
        """A layer's output with the rows injected after it joined."""
        hidden = hidden_of(output)
        grown = [hidden[: self.rows * self.blocks(layer)]]
        for strength in self.strengths:
            block = hidden[: self.rows].clone()
            injection = Injection(layer, self.vectors[:, layer], strength)
            block[self.places] = injection.apply(block[self.places])
            grown.append(block)
        if layer == self.last:
            grown.append(hidden[:1].expand(self.whole - self.used, -1, -1))
        # The expanded keys and values have served; dropping them keeps memory at one layer's.
        nothing = torch.arange(0, device=self.vectors.device)
        self._cached.pop(layer).batch_select_indices(nothing)
        return with_hidden(output, torch.cat(grown))

    def _narrow(self, value: Any, blocks: int) -> Any:
        """The first blocks of what holds one part, or one for each head, per row of the whole."""
        if isinstance(value, Tensor) and value.dim() > 1 and value.shape[0] % self.whole == 0:
            return value[: value.shape[0] // self.whole * self.rows * blocks]
        if isinstance(value, tuple):
            return tuple(self._narrow(item, blocks) for item in value)
        return value


def _run(
    anatomy: Anatomy, prompts: Sequence[SweepPrompt], growth: _Growth
) -> tuple[Tensor, Tensor]:
    """Scores [candidates · prompts], candidate by candidate."""
    start, kept = prompts[0].cues[0], len(prompts[0].targets)
    cache = run_prefix(anatomy, [p.ids[:start] for p in prompts])
    tails = pad_right([p.ids[start:] for p in prompts], anatomy.device)
    ids = tails[torch.arange(growth.whole, device=anatomy.device) % growth.rows]
    short = torch.tensor([tails.shape[1] - prompt.tail for prompt in prompts])
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        states = stack.enter_context(before_head(anatomy)) if anatomy.bare_head else None
        stack.enter_context(_growing(anatomy, growth))
        output = anatomy.model(
            input_ids=ids,
            use_cache=True,
            logits_to_keep=0 if short.any() else kept,  # 0 keeps all
            **{anatomy.cache_argument: cache},
        )
    blocks = growth.used // growth.rows - growth.plain
    injected = slice(growth.plain * growth.rows, growth.used)
    targets = [p.targets for p in prompts] * blocks
    if states is None:
        return score_logits(output.logits[injected], targets)
    found = states[0][injected]
    last = found.shape[1] - kept - short.repeat(blocks).unsqueeze(1) + torch.arange(kept)
    return score_states(anatomy, found[torch.arange(len(found)).unsqueeze(1), last], targets)


def _prime(least: int) -> int:
    """The first prime number from `least` on."""
    return next(n for n in count(max(2, least)) if all(n % d for d in range(2, isqrt(n) + 1)))


@contextmanager
def _growing(anatomy: Anatomy, growth: _Growth) -> Iterator[None]:
    """While open, a forward's batch grows from layer to layer."""

    def before(layer: int) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return growth.before(layer, args, kwargs)

        return hook

    def after(layer: int) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> Any:
            return growth.after(layer, output)

        return hook

    with ExitStack() as stack:
        for index, layer in enumerate(anatomy.layers):
            stack.callback(layer.register_forward_pre_hook(before(index), with_kwargs=True).remove)
            stack.callback(layer.register_forward_hook(after(index)).remove)
        yield
