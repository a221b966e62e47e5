"""What `taskvec heads` measures: forwards of a model, and what the analyses make of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor
from tqdm import tqdm

from harness_ext.analysis.attention_mass import Mass, mass_of, masses, prompt_parts
from harness_ext.analysis.explained import (
    Explained,
    Geometry,
    explained,
    geometry,
    mean_explained,
)
from harness_ext.analysis.head_overlap import Agreement, Ranks, agreement, mean_layer, ranks
from harness_ext.heads.select import Head, head_count, matched_heads, top_heads
from harness_ext.methods.base import Bench
from harness_ext.methods.head_scores import (
    Readings,
    induction,
    random_heads,
    read_heads,
    score_task,
    scoring_episodes,
)
from harness_ext.steering.attention_weights import weights_at
from harness_ext.steering.capture import last_states
from harness_ext.steering.context import Context, Document
from harness_ext.steering.head_outputs import head_outputs
from harness_ext.steering.prompts import EncodedPrompt

KINDS = ("tr", "tl", "ih")
"""Task-recognition, task-learning and induction heads."""

LOGITS = ("label_logit", "mean_logit")
"""Direct logit attribution, the baseline: of the right label, and the mean of all."""

COMPARED = (*combinations(KINDS, 2), *((kind, logit) for logit in LOGITS for kind in KINDS[:2]))
"""Pairs of scores that are compared on each task."""

INDUCTION_SHARE = 0.1
NEAR_TOP: Mapping[str, float] = {"tr": 0.2, "tl": 0.5}
"""Yang et al. 2026: the top tenth of induction heads lies in the top fifth by TR, half by TL."""


@dataclass(frozen=True, eq=False)
class TaskFindings:
    """What was found on one task.

    prompts: how many heads were scored on. scores: by name, [layers, heads]. top: the heads of each
    kind, best first. mean_layers: of these. agreements: by pair of scores. induction_ranks: where
    the top tenth of the induction heads stands by another score. attention: by kind, and of `all`
    heads. explained: of the task vector, by kind and by as many `random` heads in the layers of the
    task-recognition heads (the mean over draws). norms: of the task vector after each layer.
    layer: the deepest with a task-recognition head, for which the geometry is given: of states
    without demonstrations (`zero_shot`), and these plus the summed outputs of each kind.
    """

    task: str
    prompts: int
    scores: Mapping[str, Tensor]
    top: Mapping[str, list[Head]]
    mean_layers: Mapping[str, float]
    agreements: Mapping[tuple[str, str], Agreement]
    induction_ranks: Mapping[str, Ranks]
    attention: Mapping[str, Mass]
    explained: Mapping[str, Explained]
    norms: tuple[float, ...]
    layer: int
    geometry: Mapping[str, Geometry]


def check_heads(bench: Bench) -> None:
    """Raise :class:`UsageError` where a model's heads do not serve, before anything long runs."""
    attention = bench.attention
    count = head_count(bench.config.head_fraction, attention.layers * attention.heads)
    all_heads = [divmod(n, attention.heads) for n in range(attention.layers * attention.heads)]
    matched_heads(all_heads[:count], attention.layers, attention.heads, 0)


def prompts_hash(bench: Bench, context: Context) -> str:
    """A hash of what :func:`measure` takes from a task: prompts with and without demonstrations,
    and labels."""
    given = [
        [
            context.prompt(episode.demonstrations, query),
            context.prompt([], query),
            context.delimiter,
            *(context.answers(document)[0] for document in (query, *episode.demonstrations)),
        ]
        for episode in scoring_episodes(bench, context)
        for query in episode.dummies
    ]
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()


def measure(bench: Bench, context: Context) -> TaskFindings:
    """Score the heads on a task, and compare what they are, look at, and write.

    Raises :class:`UsageError` where attention cannot be split into heads or gives no weights, and
    where the task's labels cannot be told apart.
    """
    asked = [(e.demonstrations, d) for e in scoring_episodes(bench, context) for d in e.dummies]
    readings = read_heads(bench, context)
    found = score_task(bench, context, readings)
    scores = {name: getattr(found, name) for name in ("tr", "tl", *LOGITS)}
    scores["ih"] = induction(bench)
    fraction = bench.config.head_fraction
    top = {kind: top_heads(scores[kind], fraction) for kind in KINDS}
    inductive = top_heads(scores["ih"], INDUCTION_SHARE)
    weights = _attention(bench, context, readings.prompts, [shown for shown, _ in asked])
    vectors, outputs, states = differences(bench, context, readings, [q for _, q in asked])
    draws = [random_heads(bench, context, top["tr"], k) for k in range(bench.config.draws)]
    layer = max(layer for layer, _ in top["tr"])
    return TaskFindings(
        task=context.name,
        prompts=len(readings.prompts),
        scores=scores,
        top=top,
        mean_layers={kind: mean_layer(heads) for kind, heads in top.items()},
        agreements={
            (one, other): agreement(scores[one], scores[other], fraction) for one, other in COMPARED
        },
        induction_ranks={
            kind: ranks(scores[kind], inductive, limit) for kind, limit in NEAR_TOP.items()
        },
        attention={
            **{kind: mass_of(weights, heads) for kind, heads in top.items()},
            "all": mass_of(weights),
        },
        explained={
            **{kind: explained(vectors, outputs, heads) for kind, heads in top.items()},
            "random": mean_explained([explained(vectors, outputs, heads) for heads in draws]),
        },
        norms=tuple(vectors.norm(dim=1).tolist()),
        layer=layer,
        geometry=_geometry(bench, readings, states[:, layer], {**top, "random": draws[0]}),
    )


def _attention(
    bench: Bench,
    context: Context,
    prompts: Sequence[EncodedPrompt],
    shown: Sequence[Sequence[Document]],
) -> Tensor:
    """Attention mass of every head, as :func:`masses` finds it."""
    answers = [[context.answers(document)[0] for document in own] for own in shown]
    parts = prompt_parts(bench.encoder, prompts, answers)
    with _bar(bench, context, "reading attention weights", len(prompts)) as bar:
        weights = weights_at(
            bench.anatomy,
            [prompt.up_to_cue for prompt in prompts],
            [prompt.cue for prompt in prompts],
            bar.update,
        )
    return masses(weights, parts)


def differences(
    bench: Bench, context: Context, readings: Readings, queries: Sequence[Document]
) -> tuple[Tensor, Tensor, Tensor]:
    """What demonstrations change at the cue, in the mean over prompts, and the states without any.

    queries: of the readings' prompts, in order. Returns the task vectors after each layer [layers,
    width], what each head adds to them [layers, heads, width], both in float64, and the states at
    the cues of zero-shot prompts [prompts, layers, width].
    """
    layers = range(len(bench.anatomy.layers))
    rows = [prompt.up_to_cue for prompt in readings.prompts]
    plain = [bench.extraction(context.prompt([], query)).up_to_cue for query in queries]
    with _bar(bench, context, "reading states", len(rows) + 2 * len(plain)) as bar:
        states = last_states(bench.anatomy, rows, layers, bar.update).float()
        states_without = last_states(bench.anatomy, plain, layers, bar.update).float().cpu()
        without = head_outputs(bench.attention, plain, done=bar.update)
    vectors = states.cpu().double().mean(dim=0) - states_without.double().mean(dim=0)
    outputs = readings.outputs.double().mean(dim=0) - without.double().mean(dim=0)
    return vectors, outputs, states_without


def _geometry(
    bench: Bench, readings: Readings, states: Tensor, kinds: Mapping[str, Sequence[Head]]
) -> dict[str, Geometry]:
    """Of zero-shot `states` [prompts, width], alone and with the summed mean outputs of heads, as
    the head methods add them."""
    unembedding = bench.anatomy.model.get_output_embeddings().weight.detach()
    outputs = readings.outputs.mean(dim=0)
    found = {"zero_shot": geometry(states, readings.labels, unembedding)}
    for kind, heads in kinds.items():
        added = torch.stack([outputs[head] for head in heads]).sum(dim=0)
        found[kind] = geometry(states + added, readings.labels, unembedding)
    return found


def _bar(bench: Bench, context: Context, what: str, total: int) -> tqdm:
    return tqdm(
        total=total,
        desc=f"{context.name}: {what}",
        disable=None if bench.progress else True,
        leave=False,
    )
