"""What the heads of a model write on a task, and which of them are taken for a kind of head.

Task-recognition (`tr`) and task-learning (`tl`) heads by their scores on a task's episodes (Yang et
al. 2026, arXiv 2509.24164), induction heads (`ih`) by their attention on repeated random tokens,
and heads drawn at random beside the task-recognition ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from harness_ext.heads.induction import induction_scores
from harness_ext.heads.select import Head, matched_heads, top_heads
from harness_ext.heads.tsla import LabelSet, Scores, label_set, score
from harness_ext.methods.base import Bench
from harness_ext.methods.extraction import extraction_prompts, refuse_overflow
from harness_ext.steering.context import Context
from harness_ext.steering.episodes import Episode, EpisodeShape, reusable_episodes
from harness_ext.steering.head_outputs import head_outputs
from harness_ext.steering.prompts import EncodedPrompt


@dataclass(frozen=True, eq=False)
class Readings:
    """What the heads write at the cue of a task's scoring prompts.

    episodes, prompts, labels: of each prompt. outputs: [prompts, layers, heads, width], float32.
    """

    episodes: list[Episode]
    prompts: list[EncodedPrompt]
    labels: list[LabelSet]
    outputs: Tensor


@dataclass(frozen=True, eq=False)
class HeadChoice:
    """Heads of one kind, best first, and what the results say of them."""

    heads: list[Head]
    record: dict[str, Any]


def scoring_episodes(bench: Bench, context: Context) -> list[Episode]:
    """The episodes on which heads are scored: `average` of them, drawn from the few-shot split."""
    config = bench.config
    shape = EpisodeShape(config.demos, context.shots, config.queries)
    return reusable_episodes(context, shape, config.average, config.seed)


def read_heads(bench: Bench, context: Context) -> Readings:
    """Run the task's scoring prompts, and keep what every head adds at their last cues.

    What fits :class:`Memory` is remembered for other methods. Raises :class:`UsageError` where
    attention cannot be split into heads.
    """
    episodes = scoring_episodes(bench, context)
    asked = [(e, dummy) for e in episodes for dummy in e.dummies]
    prompts = [prompt for e in episodes for prompt in extraction_prompts(bench, context, e)]
    labels = []
    for (episode, query), prompt in zip(asked, prompts, strict=True):
        shown = [context.answers(document)[0] for document in episode.demonstrations]
        right = context.answers(query)[0]
        labels.append(label_set(bench.encoder, prompt, context.delimiter, right, shown))
    outputs = _outputs(bench, context, prompts)
    return Readings([episode for episode, _ in asked], prompts, labels, outputs)


def _outputs(bench: Bench, context: Context, prompts: Sequence[EncodedPrompt]) -> Tensor:
    attention, known = bench.attention, bench.memory.of(context.name)
    keys = [("heads", prompt.ids) for prompt in prompts]
    if not all(key in known for key in keys):
        rows = [prompt.up_to_cue for prompt in prompts]
        with tqdm(
            total=len(rows),
            desc=f"{context.name}: reading attention heads",
            disable=None if bench.progress else True,
            leave=False,
        ) as bar:
            outputs = head_outputs(attention, rows, done=bar.update)
        refuse_overflow(context, outputs, range(attention.layers), "scoring prompt")
        if not bench.memory.has_room(outputs.nbytes):
            # What other episodes of the task left is less likely to be asked for again.
            for old in [key for key in known if isinstance(key, tuple) and key[0] == "heads"]:
                del known[old]
        if bench.memory.has_room(outputs.nbytes):
            # Copies: a view of all would keep all.
            known.update(zip(keys, (output.clone() for output in outputs), strict=True))
        return outputs
    return torch.stack([known[key] for key in keys])


def score_task(bench: Bench, context: Context, readings: Readings) -> Scores:
    """The task's TR and TL scores, and direct logit attribution, of every head.

    Raises :class:`UsageError`, naming the task, where its labels cannot be told apart.
    """
    unembedding = bench.anatomy.model.get_output_embeddings().weight.detach()
    squared = bench.config.squared
    return score(readings.outputs, readings.labels, unembedding, squared, context.name)


def induction(bench: Bench) -> Tensor:
    """Induction-head scores [layers, heads] of the model, for this configuration's seed."""
    known, seed = bench.memory.induction, bench.config.seed
    if seed not in known:
        tokenizer, most = bench.encoder.tokenizer, bench.anatomy.vocabulary_size
        special = set(tokenizer.all_special_ids)
        vocabulary = [i for i in range(min(len(tokenizer), most)) if i not in special]
        start = [i for i in bench.encoder.encode("") if i in special]
        known[seed] = induction_scores(bench.anatomy, start, vocabulary, seed)
    return known[seed]


def heads_by(
    kind: str, bench: Bench, context: Context, draw: int = 0, readings: Readings | None = None
) -> HeadChoice:
    """The heads of a kind (`tr`, `tl`, `ih` or `random`) for a task, and a record of them.

    draw: which draw of random heads. readings: those of :func:`read_heads`, where they are at hand.
    Raises :class:`UsageError` as :func:`score_task` and :func:`matched_heads` do.
    """
    config = bench.config
    record: dict[str, Any] = {"head_kind": kind, "head_fraction": config.head_fraction}
    if kind == "ih":
        scores = induction(bench)
    else:
        found = score_task(bench, context, readings or read_heads(bench, context))
        scores = found.tl if kind == "tl" else found.tr
        record["squared"] = config.squared
    heads = top_heads(scores, config.head_fraction)
    if kind == "random":
        heads = random_heads(bench, context, heads, draw)
    else:
        record["head_scores"] = [round(float(scores[head]), 4) for head in heads]
    return HeadChoice(heads, {**record, "heads": [list(head) for head in heads]})


def random_heads(bench: Bench, context: Context, like: Sequence[Head], draw: int) -> list[Head]:
    """A draw of random heads in the layers of `like`, the task-recognition heads, none of them."""
    attention = bench.attention
    seed = f"{context.name} random heads {bench.config.seed} {draw}"
    return matched_heads(like, attention.layers, attention.heads, seed)
