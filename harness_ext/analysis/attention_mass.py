"""What attention heads look at from a prompt's last cue: labels shown, the query, or the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.heads.select import Head
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder, cue_ends

Span = tuple[int, int]
"""Characters of a text: first, and the one after the last."""


@dataclass(frozen=True)
class Parts:
    """Indices of a prompt's tokens, up to the last cue.

    labels: those of the demonstrations' answers. query: those of the query's text without the
    template around it.
    """

    labels: tuple[int, ...]
    query: tuple[int, ...]


@dataclass(frozen=True)
class Mass:
    """Attention weight at the last cue, summed over the tokens of each part.

    start: the first token, where heads with nothing to say put their weight. elsewhere: inputs of
    the demonstrations, templates, the cue itself. The four sum to 1, or to less in models whose
    heads may attend to nothing (attention sinks of gpt-oss).
    """

    labels: float
    query: float
    start: float
    elsewhere: float


def prompt_parts(
    encoder: PromptEncoder, prompts: Sequence[EncodedPrompt], answers: Sequence[Sequence[str]]
) -> list[Parts]:
    """The parts of the prompts of one task, none of them cut.

    answers: of each prompt those of its demonstrations, as shown, in order. The query is what
    stands between the last of them and the cue, without the beginning that the inputs of all
    prompts have in common. A token belongs to a part if a character of it does. Raises
    :class:`UsageError` where a cue occurs inside a text, or an answer does not follow its cue.
    """
    found = [
        _spans(prompt.text, encoder.cue, shown)
        for prompt, shown in zip(prompts, answers, strict=True)
    ]
    inputs = [
        prompt.text[start:end].lstrip()
        for prompt, (_, spans) in zip(prompts, found, strict=True)
        for start, end in spans[1:]  # a description may stand before the first
    ]
    template = len(_common_template(inputs))
    parts = []
    for prompt, (labels, spans) in zip(prompts, found, strict=True):
        start, end = spans[-1]
        blank = len(prompt.text[start:end]) - len(prompt.text[start:end].lstrip())
        tokens = encoder.offsets(prompt.text, prompt.ids)[: prompt.cue + 1]
        shown = _tokens(prompt.text, tokens, labels)
        asked = _tokens(prompt.text, tokens, [(start + blank + template, end)])
        parts.append(Parts(tuple(sorted(shown)), tuple(sorted(asked - shown))))
    return parts


def masses(weights: Sequence[Tensor], parts: Sequence[Parts]) -> Tensor:
    """Weight on labels, query, start and elsewhere, mean over prompts: [4, layers, heads], float64.

    weights: of each prompt's last cue, [layers, heads, tokens]. A first token that belongs to a
    label or the query counts there.
    """
    total = torch.zeros(4, *weights[0].shape[:2], dtype=torch.float64)
    for own, part in zip(weights, parts, strict=True):
        kind = torch.full((own.shape[-1],), 3)
        kind[0] = 2
        kind[list(part.query)] = 1
        kind[list(part.labels)] = 0
        total += torch.stack([own.double()[..., kind == n].sum(dim=-1) for n in range(4)])
    return total / len(weights)


def mass_of(found: Tensor, heads: Sequence[Head] | None = None) -> Mass:
    """The mean over `heads`, by default all, of what :func:`masses` found."""
    if heads is None:
        return Mass(*found.mean(dim=(1, 2)).tolist())
    return Mass(*torch.stack([found[:, layer, head] for layer, head in heads]).mean(dim=0).tolist())


def _spans(text: str, cue: str, answers: Sequence[str]) -> tuple[list[Span], list[Span]]:
    """Where the answers stand, and where the inputs do, the query's last: up to their cues."""
    labels: list[Span] = []
    inputs: list[Span] = []
    start = 0
    for number, end in enumerate(cue_ends(text, cue, len(answers) + 1)):
        inputs.append((start, end - len(cue)))
        if number == len(answers):
            break
        answer = answers[number].strip()
        first = len(text) - len(text[end:].lstrip())
        if not text.startswith(answer, first):
            raise UsageError(
                f"the answer {answer!r} of a demonstration does not follow its cue {cue!r}, but "
                f"{text[end : end + 60]!r} does, so attention to it cannot be measured. Choose a "
                "cue that ends what is asked."
            )
        start = first + len(answer)
        labels.append((first, start))
    return labels, inputs


def _common_template(inputs: Sequence[str]) -> str:
    """What all inputs begin with, up to its last whole word."""
    first, last = min(inputs), max(inputs)  # what these two share, all between them do
    if first == last:
        return ""
    n = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    while n and first[n - 1].isalnum():
        n -= 1
    return first[:n]


def _tokens(text: str, tokens: Sequence[Span], spans: Sequence[Span]) -> set[int]:
    """Indices of the tokens that hold a character, no blank, of a span."""
    return {
        index
        for index, (a, b) in enumerate(tokens)
        if any(text[max(a, start) : min(b, end)].strip() for start, end in spans)
    }
