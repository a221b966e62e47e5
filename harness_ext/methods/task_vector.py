"""Task vectors: the state at the last cue of a prompt with demonstrations (method `tv`).

Hendel et al. 2023 (arXiv 2310.15916); Dong et al. 2026 (arXiv 2506.09048). The extraction prompt
ends in a dummy query, never the tested one; the vector replaces the state (or is added to it) at
the last cue of the tested prompt, after the layer it was read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from harness_ext.errors import UsageError
from harness_ext.methods.base import Bench, Method, Plan
from harness_ext.methods.selection import Selection, given, needs_development, select
from harness_ext.steering.capture import branched_states, last_states
from harness_ext.steering.episodes import (
    Episode,
    EpisodeShape,
    development_episodes,
    episode_about,
    reusable_episodes,
)
from harness_ext.steering.inject import Injection
from harness_ext.steering.prefix import common_beginning
from harness_ext.steering.task_context import Document, TaskContext


@dataclass(frozen=True)
class _Choice:
    """What holds for all of a task: the selection and, with `average`, the vector itself."""

    selection: Selection
    vector: Tensor | None
    record: dict[str, Any]


class TaskVector(Method):
    """A task vector per tested query, or one reusable vector per task (`average`)."""

    def plan(self, context: TaskContext, documents: Sequence[Document]) -> Plan:
        """See :meth:`Method.plan`. Layer and strength hold for all of the task."""
        choice = self._choose(context)
        layer, strength = choice.selection.layer, choice.selection.strength
        if choice.vector is not None:
            common = Injection(layer, choice.vector, strength)
            return Plan([common] * len(documents), choice.record)
        own = {context.key(document): document for document in documents}
        shape, seed = self._shape(context), self.bench.config.seed
        episodes = [episode_about(context, d, shape, 0, seed) for d in own.values()]
        vectors = extract(self.bench, context, episodes, [layer])[:, 0]
        injections = {
            key: Injection(layer, vector, strength)
            for key, vector in zip(own, vectors, strict=True)
        }
        return Plan([injections[context.key(d)] for d in documents], choice.record)

    def _shape(self, context: TaskContext) -> EpisodeShape:
        config = self.bench.config
        return EpisodeShape(config.demos, context.shots, config.queries)

    def _choose(self, context: TaskContext) -> _Choice:
        config, shape = self.bench.config, self._shape(context)
        reusable: _Reusable | None = None
        if config.average:
            episodes = reusable_episodes(context, shape, config.average, config.seed)
            reusable = _Reusable.read(self.bench, context, episodes)
        selection = (
            self._develop(context, shape, reusable) if needs_development(config) else given(config)
        )
        return _Choice(
            selection=selection,
            vector=None if reusable is None else reusable.mean()[selection.layer],
            record={"shots": context.shots, **selection.record},
        )

    def _develop(
        self, context: TaskContext, shape: EpisodeShape, reusable: _Reusable | None
    ) -> Selection:
        config = self.bench.config
        episodes = development_episodes(context, shape, config.dev, config.seed)
        if reusable is None:
            layers = range(len(self.bench.anatomy.layers))
            return select(
                self.bench, context, episodes, extract(self.bench, context, episodes, layers)
            )
        unseen = [e for e in episodes if reusable.unseen(context, e.query).any()]
        if not unseen:
            raise UsageError(
                f"every few-shot document of {context.name!r} occurs in each of the "
                f"average={config.average} extraction episodes, so none is left to choose a layer "
                "on. Raise average, lower demos, or pass layer=N."
            )
        vectors = torch.stack([reusable.mean(reusable.unseen(context, e.query)) for e in unseen])
        return select(self.bench, context, unseen, vectors)


@dataclass(frozen=True)
class _Reusable:
    """The episodes behind a reusable vector: states [episodes, layers, width] and their members."""

    states: Tensor
    members: list[set[str]]

    @classmethod
    def read(cls, bench: Bench, context: TaskContext, episodes: Sequence[Episode]) -> _Reusable:
        layers = range(len(bench.anatomy.layers))
        members = [{context.identity(d) for d in (*e.demonstrations, *e.dummies)} for e in episodes]
        return cls(extract(bench, context, episodes, layers), members)

    def unseen(self, context: TaskContext, query: Document) -> Tensor:
        """[episodes], True where the episode does not hold the query."""
        own = context.identity(query)
        return torch.tensor([own not in members for members in self.members])

    def mean(self, chosen: Tensor | None = None) -> Tensor:
        """Mean state [layers, width] over the chosen episodes (by default all), in float32.

        A development query is answered with the mean over the episodes that do not hold it.
        """
        return (self.states if chosen is None else self.states[chosen]).float().mean(dim=0)


def extract(
    bench: Bench, context: TaskContext, episodes: Sequence[Episode], layers: Sequence[int]
) -> Tensor:
    """The task vector of each episode after each of `layers`: [episodes, layers, width].

    The mean of the states at the last cue over the episode's dummy queries, whose common beginning,
    the demonstrations, runs once.
    """
    prompts = [
        [
            bench.extraction(context.prompt(episode.demonstrations, dummy))
            for dummy in episode.dummies
        ]
        for episode in episodes
    ]
    rows = [[prompt.ids[: prompt.cue + 1] for prompt in own] for own in prompts]
    with tqdm(
        total=len(rows),
        desc=f"{context.name}: extracting task vectors",
        disable=None if bench.progress else True,
        leave=False,
    ) as bar:
        if len(rows[0]) == 1:
            states = last_states(bench.anatomy, [own[0] for own in rows], layers, bar.update)
        else:
            # Shorter than its rows by at least the cue, which the branches keep.
            stems = [common_beginning([row[:-1] for row in own]) for own in rows]
            branches = [
                [row[len(stem) :] for row in own] for stem, own in zip(stems, rows, strict=True)
            ]
            states = branched_states(bench.anatomy, stems, branches, layers, bar.update)
            states = states.float().mean(dim=1)
    _refuse_nan(context, states, layers)
    return states


def _refuse_nan(context: TaskContext, states: Tensor, layers: Sequence[int]) -> None:
    broken = ~torch.isfinite(states).all(dim=2)
    if broken.any():
        episode, column = broken.nonzero()[0].tolist()
        raise UsageError(
            f"the state after layer {layers[column]} holds NaN or infinity (episode {episode} of "
            f"{context.name!r}); the model overflows in its dtype. Try dtype=float32 or bfloat16."
        )
