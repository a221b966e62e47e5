"""Episodes: which demonstrations and dummy queries a vector is read from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness_ext.errors import UsageError
from harness_ext.steering.context import Context, Document


@dataclass(frozen=True)
class Episode:
    """Documents around a query; none of them is the query's pair, and none occurs twice.

    query: the document that the episode serves. demonstrations, dummies: of the extraction prompt,
    one prompt per dummy query. shots: of the prompt injected into.
    """

    query: Document
    demonstrations: tuple[Document, ...]
    dummies: tuple[Document, ...]
    shots: tuple[Document, ...]


@dataclass(frozen=True)
class EpisodeShape:
    """How many documents an episode takes.

    demonstrations: of the extraction prompt. shots: of the prompt injected into; the first of them
    are the same documents. queries: dummy queries after the demonstrations.
    """

    demonstrations: int
    shots: int
    queries: int

    @property
    def total(self) -> int:
        """Documents of the few-shot split that one episode uses up."""
        return max(self.demonstrations, self.shots) + self.queries


def episode_about(
    context: Context, query: Document, shape: EpisodeShape, draw: str | int, seed: int
) -> Episode:
    """The episode that serves `query`: neither it nor its mirror occurs in the prompt.

    Raises :class:`UsageError` where the few-shot split is too small.
    """
    order = context.order(query, draw, seed)
    if len(order) < shape.total:
        asked = f"demos={shape.demonstrations}"
        if shape.shots > shape.demonstrations:
            asked = f"num_fewshot={shape.shots}"
        most = len(order) - shape.queries
        raise UsageError(
            f"{asked} with queries={shape.queries} needs {shape.total} documents beside the tested "
            f"one, but the few-shot split of {context.name!r} has {len(order)}; "
            + (f"the most it allows is {most}." if most > 0 else "it is too small for any.")
        )
    return Episode(
        query=query,
        demonstrations=tuple(order[: shape.demonstrations]),
        dummies=tuple(order[shape.total - shape.queries : shape.total]),
        shots=tuple(order[: shape.shots]),
    )


def development_episodes(context: Context, shape: EpisodeShape, n: int, seed: int) -> list[Episode]:
    """`n` episodes about few-shot documents, each with draws of its own.

    Every document serves once before one serves again.
    """
    queries = _cycle(context, n, f"development {seed}")
    return [
        episode_about(context, query, shape, f"development {seed} {i}", seed)
        for i, query in enumerate(queries)
    ]


def reusable_episodes(context: Context, shape: EpisodeShape, n: int, seed: int) -> list[Episode]:
    """`n` episodes that serve no query in particular: the first dummy is a few-shot document."""
    queries = _cycle(context, n, f"average {seed}")
    found = [
        episode_about(context, query, shape, f"average {seed} {i}", seed)
        for i, query in enumerate(queries)
    ]
    return [replace(e, dummies=(e.query, *e.dummies[:-1])) for e in found]


def members(context: Context, episode: Episode) -> set[str]:
    """What the episode's extraction prompts hold: its demonstrations and dummy queries."""
    return {context.identity(d) for d in (*episode.demonstrations, *episode.dummies)}


def companions(
    context: Context,
    episodes: Sequence[Episode],
    shape: EpisodeShape,
    n: int,
    dev: int,
    seed: int,
) -> tuple[list[Episode], list[list[int]]]:
    """For each of `episodes`, `n` others that do not hold its query, out of `dev` development ones.

    Returns the others and, per episode, the numbers of its own n among them: a function of the
    episode's query, of `dev` and of `seed`. Where too few of the development episodes leave the
    query out (in a small few-shot split they are few), further episodes about it are drawn.
    """
    pool = development_episodes(context, shape, dev, seed)
    held = [members(context, other) for other in pool]
    chosen: list[list[int]] = []
    for episode in episodes:
        query = context.identity(episode.query)
        key = f"{context.name} companions {seed} {context.key(episode.query)}"
        first = random.Random(key).randrange(dev)
        around = [(first + i) % dev for i in range(dev)]
        fit = [k for k in around if query not in held[k] and pool[k] != episode][:n]
        for i in range(n - len(fit)):
            fit.append(len(pool))
            pool.append(episode_about(context, episode.query, shape, f"companion {seed} {i}", seed))
        chosen.append(fit)
    used = sorted({k for own in chosen for k in own})
    number = {k: i for i, k in enumerate(used)}
    return [pool[k] for k in used], [[number[k] for k in own] for own in chosen]


def _cycle(context: Context, n: int, draw: str) -> Sequence[Document]:
    pool = context.pool()
    random.Random(f"{context.name} {draw}").shuffle(pool)
    return [pool[i % len(pool)] for i in range(n)]
