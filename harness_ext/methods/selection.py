"""Choosing where, and how strongly, to inject: by development accuracy alone.

Development accuracy: share of development episodes whose first predicted token begins an accepted
answer as it continues that prompt (its first tokens, where a blank one comes before the answer); in
choice tasks, whose right choice scores best. Ties go to the higher mean log-probability of the
right answer, then to the earlier layer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness_ext.combining import HEADS
from harness_ext.config import AUTO, SteeringConfig
from harness_ext.methods.base import Bench
from harness_ext.steering.context import Context
from harness_ext.steering.episodes import Episode
from harness_ext.steering.prompts import EncodedPrompt
from harness_ext.steering.scoring import SweepPrompt, SweepScores
from harness_ext.steering.sweep import layer_loop, score_together, sweep_layers

log = logging.getLogger(__name__)

STRENGTHS = (0.5, 1.0, 2.0, 4.0)
"""Factors that `strength=auto` tries on task vectors."""

HEAD_STRENGTHS = (1.0, 2.0, 4.0, 8.0)
"""Those it tries on head vectors: a few heads write little beside a whole state."""


@dataclass(frozen=True)
class Selection:
    """Where and with which strength (None: replace) to inject, and how that was found.

    layers: mostly one; several where each has a vector of its own.
    """

    layers: tuple[int, ...]
    strength: float | None
    record: dict[str, Any]

    @property
    def layer(self) -> int:
        """The one layer."""
        (layer,) = self.layers
        return layer


@dataclass(frozen=True)
class _Rows:
    """Development prompts as sweep rows: one per episode, or one per choice of an episode."""

    prompts: list[SweepPrompt]
    episode: list[int]
    is_right_choice: list[bool]


def candidate_strengths(config: SteeringConfig) -> tuple[float | None, ...]:
    """Strengths to try: none where the state is replaced, the given one, or the grid."""
    if config.mode == "replace":
        return (None,)
    if config.strength != AUTO:
        return (float(config.strength),)
    return HEAD_STRENGTHS if config.method in HEADS else STRENGTHS


def candidate_layers(bench: Bench) -> list[int]:
    """Layers to try: all of the model's, or the given one."""
    layer = bench.config.layer
    return list(range(len(bench.anatomy.layers))) if layer == AUTO else [int(layer)]


def needs_development(config: SteeringConfig) -> bool:
    """Whether anything is left to choose."""
    return config.layer == AUTO or len(candidate_strengths(config)) > 1


def given(config: SteeringConfig) -> Selection:
    """The selection where configuration leaves no choice."""
    (strength,) = candidate_strengths(config)
    assert config.layer != AUTO
    layer = int(config.layer)
    return Selection(
        (layer,), strength, {"layer": layer, "strength": strength, "chosen_by": "user"}
    )


def select(
    bench: Bench,
    context: Context,
    episodes: Sequence[Episode],
    layers: Sequence[int],
    vectors: Tensor,
) -> Selection:
    """The best candidate for `vectors` [episodes, layers, cues, width] on development `episodes`.

    layers: those of :func:`candidate_layers`. Warns where even the best candidate answers nothing
    right.
    """
    strengths = candidate_strengths(bench.config)
    rows = _rows(bench, context, episodes, vectors.shape[2])
    spread = vectors[torch.tensor(rows.episode)]
    if len(layers) == len(bench.anatomy.layers):
        scores = sweep_layers(bench.anatomy, rows.prompts, spread, strengths)
    else:
        scores = layer_loop(bench.anatomy, rows.prompts, spread, strengths, layers)
    right, log_prob = _by_episode(context, rows, scores, len(episodes))
    accuracy, best = _best(right, log_prob)
    layer, strength = layers[best // len(strengths)], strengths[best % len(strengths)]
    likelihood = log_prob.mean(dim=1)
    table = accuracy.view(len(layers), len(strengths)).T
    likely = likelihood.view(len(layers), len(strengths)).T
    return Selection(
        layers=(layer,),
        strength=strength,
        record={
            "layer": layer,
            "strength": strength,
            **_chosen(accuracy, best, len(episodes)),
            "layers": list(layers),
            "development_accuracy_by_layer": _by_strength(strengths, table),
            "development_log_prob_by_layer": _by_strength(strengths, likely),
            "warning": _warning(accuracy, best, context, f"layer {layer}"),
        },
    )


def select_together(
    bench: Bench,
    context: Context,
    episodes: Sequence[Episode],
    layers: Sequence[int],
    vectors: Tensor,
) -> Selection:
    """The best strength for `vectors` [episodes, layers, cues, width] injected at all `layers`."""
    strengths = candidate_strengths(bench.config)
    rows = _rows(bench, context, episodes, vectors.shape[2])
    spread = vectors[torch.tensor(rows.episode)]
    scores = score_together(bench.anatomy, rows.prompts, spread, strengths, layers)
    right, log_prob = _by_episode(context, rows, scores, len(episodes))
    accuracy, best = _best(right, log_prob)
    by_strength = dict(zip(map(str, strengths), _rounded(accuracy), strict=True))
    return Selection(
        layers=tuple(layers),
        strength=strengths[best],
        record={
            "strength": strengths[best],
            **_chosen(accuracy, best, len(episodes)),
            "layers": list(layers),
            "development_accuracy_by_strength": by_strength,
            "warning": _warning(accuracy, best, context, f"strength {strengths[best]}"),
        },
    )


def _best(right: Tensor, log_prob: Tensor) -> tuple[Tensor, int]:
    """Accuracy [candidates], and the best candidate's number; both inputs [candidates, episodes].

    Candidates come layer by layer; the earlier one wins what accuracy and likelihood leave tied.
    """
    accuracy = right.mean(dim=1)
    # A model that overflows under an injection gives NaN there, which must not be chosen.
    certain = log_prob.mean(dim=1).nan_to_num(nan=-torch.inf)
    best = min(range(len(accuracy)), key=lambda i: (-float(accuracy[i]), -float(certain[i]), i))
    return accuracy, best


def _chosen(accuracy: Tensor, best: int, episodes: int) -> dict[str, Any]:
    return {
        "chosen_by": "development accuracy",
        "development_episodes": episodes,
        "development_accuracy": round(float(accuracy[best]), 4),
    }


def _warning(accuracy: Tensor, best: int, context: Context, chosen: str) -> str | None:
    if accuracy[best] > 0:
        return None
    warning = (
        f"no candidate layer or strength answers a single development episode of {context.name} "
        f"right; the vector does nothing for this task, and {chosen} is only the likeliest."
    )
    log.warning(warning)
    return warning


def _by_strength(strengths: Sequence[float | None], table: Tensor) -> Any:
    """[strengths, layers] as a list by layer, or a mapping strength → list where several ran."""
    lists = [_rounded(row) for row in table]
    return lists[0] if len(lists) == 1 else dict(zip(map(str, strengths), lists, strict=True))


def _rounded(values: Tensor) -> list[float | None]:
    return [round(float(value), 4) if value.isfinite() else None for value in values]


def _rows(bench: Bench, context: Context, episodes: Sequence[Episode], cues: int) -> _Rows:
    rows = _Rows([], [], [])
    for number, episode in enumerate(episodes):
        text = context.prompt(episode.shots, episode.query)
        right = context.answers(episode.query)
        if not context.choices:
            whole = bench.encoder.prompt(text, cues)
            opening = bench.encoder.opening(whole, context.delimiter, right)
            # Cut as the tested prompts are, which leave room for an answer.
            room = max(context.new_tokens(bench.max_gen_toks), len(opening.lead))
            prompt = whole.cut(bench.max_length - room)
            targets = (*((token,) for token in opening.lead), opening.first)
            found = SweepPrompt((*prompt.ids, *opening.lead), prompt.cues, targets)
            _add(rows, found, number, True)
            continue
        # White space at the end of the context counts as the answer's, as in lm-eval.
        context_ids = len(bench.encoder.prompt(text.rstrip()).ids)
        for choice in context.choice_texts(episode.query):
            whole = bench.encoder.with_answer(text, context.delimiter + choice, cues)
            _add(rows, _choice_row(whole, context_ids, bench), number, choice in right)
    return rows


def _add(rows: _Rows, prompt: SweepPrompt, episode: int, right: bool) -> None:
    rows.prompts.append(prompt)
    rows.episode.append(episode)
    rows.is_right_choice.append(right)


def _choice_row(whole: EncodedPrompt, context_ids: int, bench: Bench) -> SweepPrompt:
    """Prompt and choice, as loglikelihood feeds them: all but the last token, the choice scored."""
    targets = tuple((token,) for token in whole.ids[context_ids:])
    fed = whole.fed(bench.max_length)
    return SweepPrompt(fed.ids, fed.cues, targets)


def _by_episode(
    context: Context, rows: _Rows, scores: SweepScores, n_episodes: int
) -> tuple[Tensor, Tensor]:
    """Rightness (0 or 1) and log-probability of the right answer: [candidates, episodes]."""
    log_prob, right = scores.log_prob.flatten(1), scores.right.flatten(1)
    if not context.choices:
        return right.T.float(), log_prob.T
    owner, is_right = torch.tensor(rows.episode), torch.tensor(rows.is_right_choice)
    best, of_right = [], []
    for number in range(n_episodes):
        own, truth = log_prob[owner == number], is_right[owner == number]
        best.append(truth[own.argmax(dim=0)].float())
        of_right.append(own[truth].amax(dim=0))
    return torch.stack(best, dim=1), torch.stack(of_right, dim=1)
