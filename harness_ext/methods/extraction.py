"""Reading task vectors: states at the cues of prompts with demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from tqdm import tqdm

from harness_ext.errors import overflow_error
from harness_ext.methods.base import Bench
from harness_ext.steering.capture import branched_states, states_at
from harness_ext.steering.context import Context
from harness_ext.steering.episodes import Episode
from harness_ext.steering.prefix import common_beginning
from harness_ext.steering.prompts import EncodedPrompt


def extract(
    bench: Bench,
    context: Context,
    episodes: Sequence[Episode],
    layers: Sequence[int],
    cues: int = 1,
) -> Tensor:
    """States at the last `cues` cues of each episode's prompt: [episodes, layers, cues, width].

    They are read after each of `layers`, and are means over the episode's dummy queries. What fits
    :class:`Memory` is remembered, with all layers that ran: other methods, or other numbers of
    shots, ask for the same prompts.
    """
    prompts = [extraction_prompts(bench, context, episode, cues) for episode in episodes]
    keys = [tuple(prompt.ids for prompt in own) for own in prompts]
    known, depth = bench.memory.of(context.name), max(layers) + 1
    new = {
        key: own
        for key, own in zip(keys, prompts, strict=True)
        if key not in known or known[key].shape[0] < depth or known[key].shape[1] < cues
    }
    if not bench.memory.has_room(4 * len(new) * depth * cues * bench.anatomy.hidden_size):
        return _read(bench, context, prompts, layers, cues)
    if new:
        states = _read(bench, context, list(new.values()), range(depth), cues)
        known.update(zip(new, states, strict=True))
    return torch.stack([known[key][list(layers), -cues:] for key in keys])


def extraction_prompts(
    bench: Bench, context: Context, episode: Episode, cues: int = 1
) -> list[EncodedPrompt]:
    """The extraction prompts of an episode, one per dummy query, and their last `cues` cues."""
    asked = len(episode.demonstrations) + 1 if cues > 1 else 1
    return [
        bench.extraction(context.prompt(episode.demonstrations, dummy), asked)
        for dummy in episode.dummies
    ]


def _read(
    bench: Bench,
    context: Context,
    prompts: Sequence[Sequence[EncodedPrompt]],
    layers: Sequence[int],
    cues: int,
) -> Tensor:
    """States [episodes, layers, cues, width], the mean over each episode's prompts."""
    rows = [[prompt.up_to_cue for prompt in own] for own in prompts]
    queries = len(rows[0])
    with tqdm(
        total=len(rows),
        desc=f"{context.name}: extracting task vectors",
        disable=None if bench.progress else True,
        leave=False,
    ) as bar:
        if queries == 1 or cues > 1:
            flat = [row for own in rows for row in own]
            places = [prompt.cues[-cues:] for own in prompts for prompt in own]
            states = states_at(
                bench.anatomy, flat, places, layers, lambda n: bar.update(n / queries)
            ).unflatten(0, (len(rows), queries))
        else:
            # Shorter than its rows by at least the cue, which the branches keep.
            stems = [common_beginning([row[:-1] for row in own]) for own in rows]
            branches = [
                [row[len(stem) :] for row in own] for stem, own in zip(stems, rows, strict=True)
            ]
            states = branched_states(bench.anatomy, stems, branches, layers, bar.update)
            states = states.unsqueeze(3)
    states = states[:, 0] if queries == 1 else states.float().mean(dim=1)
    refuse_overflow(context, states, layers, "episode")
    return states


def refuse_overflow(context: Context, read: Tensor, layers: Sequence[int], item: str) -> None:
    """Raise :class:`UsageError` for NaN or infinity in `read` [items, layers, …, width].

    item: what the message calls one of the items.
    """
    broken = ~torch.isfinite(read).flatten(2).all(dim=2)
    if broken.any():
        number, column = broken.nonzero()[0].tolist()
        raise overflow_error(layers[column], f"{item} {number} of {context.name!r}")
