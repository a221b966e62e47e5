"""Reusable vectors: the mean over several episodes (`average=N`), and what each episode held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness_ext.steering.context import Context, Document
from harness_ext.steering.episodes import Episode, members


@dataclass(frozen=True)
class Reusable:
    """States [episodes, layers, cues, width] and, per episode, the documents its prompts held.

    record: what the results say of how the states were made.
    """

    states: Tensor
    held: list[set[str]]
    record: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        context: Context,
        episodes: Sequence[Episode],
        states: Tensor,
        record: Mapping[str, Any] | None = None,
    ) -> Reusable:
        """The states of these episodes."""
        return cls(states, [members(context, episode) for episode in episodes], record or {})

    def unseen(self, context: Context, query: Document) -> Tensor:
        """[episodes], True where the episode does not hold the query."""
        own = context.identity(query)
        return torch.tensor([own not in held for held in self.held])

    def mean(self, chosen: Tensor | None = None) -> Tensor:
        """Mean state [layers, cues, width] over the chosen episodes (all by default), in float32.

        A development query is answered with the mean over the episodes that do not hold it.
        """
        return (self.states if chosen is None else self.states[chosen]).float().mean(dim=0)
