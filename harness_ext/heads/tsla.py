"""Task-recognition and task-learning scores of attention heads.

Yang, Cho and Inoue 2026 (arXiv 2509.24164).

A head that recognises the task writes into the subspace that the labels' unembeddings span; one
that learns it writes, inside that subspace, towards the right label and away from the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder

log = logging.getLogger(__name__)

_ROUNDING = torch.finfo(torch.float32).eps
"""Relative size of what is taken for zero: head outputs are in float32, or coarser."""

_NEED = "Task-recognition and task-learning heads are told by what they do to different labels"


@dataclass(frozen=True)
class LabelSet:
    """The labels of one episode: those of its demonstrations, and the right one.

    labels: different labels, the right one first. tokens: the different tokens that these begin
    with as they continue the prompt, that of the right one first.
    """

    labels: tuple[str, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Scores:
    """What heads score in the mean over episodes; each [layers, heads], float64, on the CPU.

    tr: norm of the part of a head's output that lies in the span of the labels' unembeddings.
    tl: dot product of the output with the right label's unembedding minus another's, in the mean
    over the others, divided by that norm; 0 where the norm is 0. label_logit and mean_logit, direct
    logit attribution: dot product with the right label's unembedding, and in the mean over labels.
    """

    tr: Tensor
    tl: Tensor
    label_logit: Tensor
    mean_logit: Tensor


def label_set(
    encoder: PromptEncoder,
    prompt: EncodedPrompt,
    delimiter: str,
    right: str,
    labels: Sequence[str],
) -> LabelSet:
    """The label set of an episode with this prompt (not cut), right label, and demonstrations.

    labels: those of the demonstrations, in any order, repeated or not. A blank token that all
    begin with counts as part of the delimiter.
    """
    distinct = tuple(dict.fromkeys([right, *labels]))
    first = encoder.opening_of_each(prompt, delimiter, distinct).first
    return LabelSet(distinct, tuple(dict.fromkeys(first)))


def score(
    outputs: Tensor,
    labels: Sequence[LabelSet],
    unembedding: Tensor,
    squared: bool = False,
    task: str = "",
) -> Scores:
    """Scores of all heads, from what they write at the cue of several episodes.

    outputs: [episodes, layers, heads, width], contributions to the residual stream; labels: of each
    episode; unembedding: [vocabulary, width], its rows as they are, without the final norm.
    squared: take the squared norm, in `tr` and as divisor in `tl` (accounts of the method differ).
    task: its name, for the log and for what is raised.

    Labels that share a first token count once; an episode that is left with one token has no part
    in `tl`; linearly dependent unembeddings span as many dimensions as their rank. The log says how
    often. Raises :class:`UsageError` where no episode has two tokens to tell apart.
    """
    refuse_single_tokens(labels, task)
    sums = torch.zeros(4, *outputs.shape[1:3], dtype=torch.float64)
    dependent = 0
    for output, own in zip(outputs, labels, strict=True):
        # float64 on the CPU: not every device has it.
        output = output.to("cpu", torch.float64)
        rows = unembedding[list(own.tokens)].to("cpu", torch.float64)
        basis = orthonormal_basis(rows)
        dependent += len(basis) < len(rows)
        norm = (output @ basis.T).norm(dim=-1)
        logits = output @ rows.T
        sums += torch.stack(
            [
                norm.square() if squared else norm,
                _lead(logits, norm, output.norm(dim=-1), squared),
                logits[..., 0],
                logits.mean(dim=-1),
            ]
        )
    several = sum(len(own.tokens) > 1 for own in labels)
    _log(labels, several, dependent, task)
    tr, tl, label_logit, mean_logit = sums
    n = len(labels)
    return Scores(tr / n, tl / several, label_logit / n, mean_logit / n)


def orthonormal_basis(rows: Tensor) -> Tensor:
    """An orthonormal basis [rank, width] of the span of `rows` [n, width]."""
    _, sizes, basis = torch.linalg.svd(rows, full_matrices=False)
    return basis[sizes > sizes[0] * max(rows.shape) * _ROUNDING]


def _lead(logits: Tensor, norm: Tensor, whole: Tensor, squared: bool) -> Tensor:
    """TL of one episode [layers, heads], 0 for a single label.

    logits: [layers, heads, labels], the right one first; norm, whole: of the heads' outputs inside
    the span, and at all.
    """
    if logits.shape[-1] == 1:
        return torch.zeros_like(norm)
    lead = logits[..., 0] - logits[..., 1:].mean(dim=-1)
    inside = norm > _ROUNDING * whole
    return torch.where(inside, lead / (norm.square() if squared else norm), 0.0)


def refuse_single_label(labels: Iterable[str], task: str) -> None:
    """Raise :class:`UsageError` where the right answers of a task's documents are all one, or none.

    No more of them are looked at than it takes.
    """
    found: set[str] = set()
    for label in labels:
        found.add(label)
        if len(found) > 1:
            return
    said = f"every few-shot document has one and the same label, {found.pop()!r}" if found else ""
    raise UsageError(
        f"{_named(task)}{said or 'no few-shot document has a label'}. {_NEED}: choose a task with "
        "at least two."
    )


def refuse_single_tokens(labels: Sequence[LabelSet], task: str) -> None:
    """Raise :class:`UsageError` where no episode has two label tokens to tell apart."""
    if any(len(own.tokens) > 1 for own in labels):
        return
    names = sorted({label for own in labels for label in own.labels})
    tokens = {token for own in labels for token in own.tokens}
    quoted = ", ".join(map(repr, names[:6])) + (", …" if len(names) > 6 else "")
    if len(names) == 1:
        raise UsageError(
            f"{_named(task)}every episode has one and the same label, {quoted}. {_NEED}: take more "
            "demonstrations, or choose another task."
        )
    if len(tokens) == 1:
        raise UsageError(
            f"{_named(task)}the labels {quoted} all begin with one token (id {min(tokens)}) as "
            f"they continue the prompt. {_NEED} in their first tokens: choose labels that begin "
            "with different ones, or another target delimiter."
        )
    raise UsageError(
        f"{_named(task)}no episode has labels that begin with different tokens, though the task "
        f"has some ({quoted}). {_NEED} in one prompt: take more demonstrations."
    )


def _named(task: str) -> str:
    return f"task {task!r}: " if task else ""


def _log(labels: Sequence[LabelSet], several: int, dependent: int, task: str) -> None:
    n, named = len(labels), _named(task)
    if shared := sum(len(own.tokens) < len(own.labels) for own in labels):
        log.warning(
            "%sin %d of %d episodes labels begin with the same token, which counts once.",
            named,
            shared,
            n,
        )
    if several < n:
        log.warning(
            "%s%d of %d episodes have a single label token and no part in the task-learning score.",
            named,
            n - several,
            n,
        )
    if dependent:
        log.warning(
            "%sin %d of %d episodes the unembeddings of the labels are linearly dependent; they "
            "span as many dimensions as their rank.",
            named,
            dependent,
            n,
        )
