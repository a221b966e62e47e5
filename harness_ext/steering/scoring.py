"""What a model predicts at the end of rows, reduced at once to what is asked of it.

Logits over a vocabulary are wide: 1500 rows of 50 000 tokens take 300 MB. Where a model's logits
are its output embedding's product and nothing else, the model hands over the states before it, and
the product is taken and reduced a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harness_ext.steering.anatomy import Anatomy

Targets = tuple[tuple[int, ...], ...]
"""For each of a row's last tokens, the ids that count as right after it."""

SLICE_BYTES = 30 * 2**20
"""Bytes of float32 logits held at once. C allocators keep freed blocks below 32 MB for the next
use; larger ones go back to the system, and every page of them is paid for again."""


@dataclass(frozen=True)
class SweepPrompt:
    """A development prompt: token ids, the indices of the cues injected at, and what is scored.

    A prompt ending in its cue has one target, the tokens that begin an accepted answer; one that
    goes on with an answer (or the blank before it) has one target per token of what follows.
    """

    ids: tuple[int, ...]
    cues: tuple[int, ...]
    targets: Targets

    @property
    def tail(self) -> int:
        """Tokens from the first of the cues on: those that an injection changes."""
        return len(self.ids) - self.cues[0]


@dataclass(frozen=True)
class SweepScores:
    """What a model makes of prompts under every candidate: layer l with factor s.

    right: [prompts, layers, strengths], True where at every target the likeliest token is right.
    log_prob: the same shape, summed log-probability of the targets.
    """

    right: Tensor
    log_prob: Tensor


@contextmanager
def before_head(anatomy: Anatomy) -> Iterator[list[Tensor]]:
    """While open, the model keeps its logits small, and the states before them are noted.

    Yields a list that receives the input [rows, kept, width] of the output embedding, which itself
    sees one row only. Only for a model with `anatomy.bare_head`.
    """
    states: list[Tensor] = []

    def hook(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        states.append(args[0])
        return (args[0][:1], *args[1:])

    handle = anatomy.model.get_output_embeddings().register_forward_pre_hook(hook)
    try:
        yield states
    finally:
        handle.remove()


@torch.no_grad()
def score_states(
    anatomy: Anatomy, states: Tensor, targets: Sequence[Targets]
) -> tuple[Tensor, Tensor]:
    """:func:`score_logits` of the states [rows, kept, width] before a bare output embedding."""
    head = anatomy.model.get_output_embeddings()
    rows = max(64, SLICE_BYTES // (4 * anatomy.vocabulary_size * states.shape[1]))
    parts = [
        score_logits(head(states[i : i + rows]), targets[i : i + rows])
        for i in range(0, len(states), rows)
    ]
    return torch.cat([right for right, _ in parts]), torch.cat([found for _, found in parts])


def score_logits(logits: Tensor, targets: Sequence[Targets]) -> tuple[Tensor, Tensor]:
    """Whether every most likely token is right, and the targets' summed log-probability.

    logits: [rows, positions, vocabulary], of which those of the targets are the last (not every
    model heeds `logits_to_keep`); targets: per row and position, the right ids. Both results
    [rows], on the CPU.
    """
    most = max(len(ids) for row in targets for ids in row)
    padded = [[[*ids, *[-1] * (most - len(ids))] for ids in row] for row in targets]
    filled = torch.tensor(padded, device=logits.device)
    logits = logits[:, -filled.shape[1] :]
    right, log_prob = [], []
    # A few rows at a time stay in the processor's cache, and their memory is used again.
    for part, ids in zip(logits.split(16), filled.split(16), strict=True):
        likelihood = part.float().log_softmax(dim=2)
        accepted = likelihood.gather(2, ids.clamp(min=0)).masked_fill(ids < 0, -torch.inf)
        right.append(_are_likeliest(likelihood, accepted, ids))
        log_prob.append(accepted.logsumexp(dim=2).sum(dim=1))
    return torch.cat(right).cpu(), torch.cat(log_prob).cpu()


def _are_likeliest(likelihood: Tensor, accepted: Tensor, ids: Tensor) -> Tensor:
    """[rows], True where at every position the likeliest token, the first of several, is right.

    Coarse dtypes tie often, and generation takes the first. It is looked for, which is slow, only
    where a right token is among the likeliest.
    """
    right = (accepted.amax(dim=2) == likelihood.amax(dim=2)).all(dim=1)
    first = likelihood[right].argmax(dim=2, keepdim=True)
    right[right.clone()] = (first == ids[right]).any(dim=2).all(dim=1)
    return right
