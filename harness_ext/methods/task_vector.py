"""Task vectors: states at the cues of a prompt with demonstrations (`tv`, `tv_m`, `tv_ms`).

Hendel et al. 2023 (arXiv 2310.15916); Dong et al. 2026 (arXiv 2506.09048). The extraction prompt
ends in a dummy query, never the tested one; a vector replaces the state (or is added to it) at a
cue of the tested prompt, after the layer it was read from. In a zero-shot prompt all three methods
are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.methods import vector_files
from harness_ext.methods.base import Method, Plan
from harness_ext.methods.extraction import extract
from harness_ext.methods.reusable import Reusable
from harness_ext.methods.selection import (
    Selection,
    candidate_layers,
    given,
    needs_development,
    select,
)
from harness_ext.steering.context import Context, Document
from harness_ext.steering.episodes import (
    Episode,
    EpisodeShape,
    companions,
    development_episodes,
    episode_about,
    reusable_episodes,
)
from harness_ext.steering.inject import Injection


@dataclass(frozen=True)
class _Choice:
    """What holds for all of a task: the selection and, with `average`, the vectors themselves.

    vectors: [cues, width], or None where every query gets its own.
    """

    selection: Selection
    vectors: Tensor | None


class TaskVector(Method):
    """`tv`: the state at the last cue of an extraction prompt, for the last cue of the tested one.

    A vector per tested query, or one reusable vector per task (`average`).
    """

    def cues(self, context: Context) -> int:
        """One: the last."""
        return 1

    def plan(self, context: Context, documents: Sequence[Document]) -> Plan:
        """See :meth:`Method.plan`. Layer and strength hold for all of the task."""
        if self.bench.config.vectors is not None:
            return vector_files.plan(self.bench, context, documents, self.cues(context))
        choice = self._choose(context)
        selection, own = choice.selection, {context.key(d): d for d in documents}
        if choice.vectors is None:
            shape, seed = self._shape(context), self.bench.config.seed
            episodes = [episode_about(context, d, shape, 0, seed) for d in own.values()]
            vectors = self._vectors(context, episodes, [selection.layer])[:, 0]
        else:
            vectors = choice.vectors.unsqueeze(0)
        record = {"shots": context.shots, **selection.record}
        if self.bench.config.save_vectors is not None:
            keys = list(own) if choice.vectors is None else None
            vector_files.save(self.bench, context, selection, vectors, keys, record)
        injections = [
            tuple((Injection(selection.layer, vector, selection.strength),) for vector in item)
            for item in vectors
        ]
        if choice.vectors is not None:
            return Plan(injections * len(documents), record)
        by_key = dict(zip(own, injections, strict=True))
        return Plan([by_key[context.key(d)] for d in documents], record)

    def _vectors(
        self, context: Context, episodes: Sequence[Episode], layers: Sequence[int]
    ) -> Tensor:
        """The vectors for the episodes' tested prompts: [episodes, layers, cues, width]."""
        return extract(self.bench, context, episodes, layers)

    def _reusable(
        self, context: Context, episodes: Sequence[Episode], layers: Sequence[int]
    ) -> Reusable:
        """What reusable vectors are the mean of."""
        return Reusable.of(context, episodes, self._vectors(context, episodes, layers))

    def _shape(self, context: Context) -> EpisodeShape:
        config = self.bench.config
        return EpisodeShape(config.demos, context.shots, config.queries)

    def _choose(self, context: Context) -> _Choice:
        config, shape = self.bench.config, self._shape(context)
        layers = candidate_layers(self.bench)
        reusable: Reusable | None = None
        if config.average:
            episodes = reusable_episodes(context, shape, config.average, config.seed)
            reusable = self._reusable(context, episodes, layers)
        if needs_development(config):
            selection = self._develop(context, shape, layers, reusable)
        else:
            selection = given(config)
        if reusable is None:
            return _Choice(selection, None)
        selection = replace(selection, record={**selection.record, **reusable.record})
        return _Choice(selection, reusable.mean()[layers.index(selection.layer)])

    def _develop(
        self,
        context: Context,
        shape: EpisodeShape,
        layers: Sequence[int],
        reusable: Reusable | None,
    ) -> Selection:
        config = self.bench.config
        episodes = development_episodes(context, shape, config.dev, config.seed)
        if reusable is None:
            vectors = self._vectors(context, episodes, layers)
            return self._select(context, episodes, layers, vectors)
        unseen = [e for e in episodes if reusable.unseen(context, e.query).any()]
        if not unseen:
            raise UsageError(
                f"every few-shot document of {context.name!r} occurs in each of the "
                f"average={config.average} extraction episodes, so none is left to choose a layer "
                "on. Raise average, lower demos, or pass layer=N."
            )
        vectors = torch.stack([reusable.mean(reusable.unseen(context, e.query)) for e in unseen])
        return self._select(context, unseen, layers, vectors)

    def _select(
        self,
        context: Context,
        episodes: Sequence[Episode],
        layers: Sequence[int],
        vectors: Tensor,
    ) -> Selection:
        """The best of the candidates for `vectors` [episodes, layers, cues, width]."""
        return select(self.bench, context, episodes, layers, vectors)


class MultipleTaskVectors(TaskVector):
    """`tv_m`: N+1 vectors from N+1 episodes, for all N+1 cues of an N-shot prompt (TaskV-M).

    The query's own episode gives the vector of the last cue, as in `tv`. Those of the
    demonstrations come from N development episodes that do not hold the query, which ones being a
    function of the query; their states serve all queries. With `average` the one reusable vector
    stands at every cue.
    """

    def cues(self, context: Context) -> int:
        """All: one per demonstration, and the query's."""
        return context.shots + 1

    def _vectors(
        self, context: Context, episodes: Sequence[Episode], layers: Sequence[int]
    ) -> Tensor:
        own = extract(self.bench, context, episodes, layers)
        if not context.shots:
            return own
        config, shape = self.bench.config, self._shape(context)
        others, chosen = companions(
            context, episodes, shape, context.shots, config.dev, config.seed
        )
        # Those of the sweep, which read them after all layers, are remembered.
        candidates = candidate_layers(self.bench)
        states = extract(self.bench, context, others, candidates)
        states = states[:, [candidates.index(layer) for layer in layers], 0]
        return torch.cat([states[torch.tensor(chosen)].transpose(1, 2), own], dim=2)

    def _reusable(
        self, context: Context, episodes: Sequence[Episode], layers: Sequence[int]
    ) -> Reusable:
        states = extract(self.bench, context, episodes, layers)
        return Reusable.of(context, episodes, states.expand(-1, -1, self.cues(context), -1))


class SinglePromptTaskVectors(TaskVector):
    """`tv_ms`: N+1 vectors from the last N+1 cues of one extraction prompt (TaskV-MS).

    They go, in their order, to the N+1 cues of the N-shot prompt.
    """

    def cues(self, context: Context) -> int:
        """All: one per demonstration, and the query's."""
        return context.shots + 1

    def _vectors(
        self, context: Context, episodes: Sequence[Episode], layers: Sequence[int]
    ) -> Tensor:
        return extract(self.bench, context, episodes, layers, self.cues(context))
