"""What a steered model has to answer, worked out one document at a time.

For tasks of lm-eval's own kind whose queries read `Example: … →`. Which demonstrations a document
gets is the one thing asked of the code under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.tasks import TaskManager
from torch import Tensor

from harness_ext.steering.task_context import TaskContext
from tests.lm.conftest import Results
from tests.lm.oracle import Document, Oracle


@dataclass(frozen=True)
class Asked:
    """A tested document: its prompt, its continuations, and the vectors for its last cues."""

    document: Document
    prompt: str
    continuations: list[str]
    vectors: list[Tensor]


def line(text: str) -> str:
    """A query as the tests' tasks write it."""
    return f"Example: {text} →"


def cues(oracle: Oracle, prompt: str) -> list[int]:
    """Index of the token that ends each arrow: the last of the prompt up to that arrow."""
    ends = [n + 1 for n, letter in enumerate(prompt) if letter == "→"]
    return [len(oracle.ids(prompt[:end])) - 1 for end in ends]


def asked(
    results: Results,
    config: dict[str, Any],
    oracle: Oracle,
    layer: int,
    demos: int = 3,
    shots: int = 0,
    method: str = "tv",
    question: str = "question",
) -> list[Asked]:
    """The documents that an evaluation asked about, each with the vectors of its demonstrations.

    Prompts are those in the results, whose shots lm-eval draws. method: `tv`, or `tv_ms` with a
    vector for every cue of the prompt. question: the field asked about.
    """
    task = TaskManager(include_defaults=False).load([config])["tasks"][config["task"]]
    context = TaskContext(task, {})
    delimiter, found = config["target_delimiter"], []
    steered = {"tv": 1, "tv_ms": shots + 1}[method]
    for sample in results["samples"][config["task"]]:
        document, (prompt, *_) = sample["doc"], sample["arguments"][0]
        assert prompt.endswith(line(document[question]))
        assert prompt.count("→") == shots + 1
        order = context.order(document, 0, 0)
        shown = [f"{line(d[question])}{delimiter}{context.answers(d)[0]}\n" for d in order[:demos]]
        extraction = "".join([*shown, line(order[max(demos, shots)][question])])
        choices = config["doc_to_choice"]
        answers = context.choice_texts(document) if choices else context.answers(document)[:1]
        # lm-eval puts no delimiter before the one continuation of a loglikelihood task.
        before = delimiter if choices else ""
        found.append(
            Asked(
                document=document,
                prompt=prompt,
                continuations=[before + answer for answer in answers],
                vectors=[
                    oracle.state(extraction, layer, cue)
                    for cue in cues(oracle, extraction)[-steered:]
                ],
            )
        )
    return found


def fed(oracle: Oracle, prompt: str, continuation: str) -> tuple[list[int], int]:
    """The ids lm-eval feeds to score a continuation, and how many of them are the prompt's.

    Where the tokenizer joins text over the border, the whole's tokens beyond so many follow.
    """
    context, whole = oracle.ids(prompt), oracle.ids(prompt + continuation)
    return [*context, *whole[len(context) :]], len(context)


def score(
    oracle: Oracle, a: Asked, continuation: str, layer: int, max_length: int = 2048
) -> tuple[float, bool]:
    """Log-probability of a continuation, and whether it is the greedy one, cut as lm-eval cuts."""
    ids, context = fed(oracle, a.prompt, continuation)
    cut = max(0, len(ids) - max_length - 1)
    vectors, positions = _left(oracle, a, cut)
    log_probs = oracle.logits(ids[cut:-1], layer, vectors, positions).log_softmax(dim=-1)
    scored = range(context, len(ids))
    total = sum(float(log_probs[i - cut - 1, ids[i]]) for i in scored)
    return total, all(int(log_probs[i - cut - 1].argmax()) == ids[i] for i in scored)


def continuation(
    oracle: Oracle,
    a: Asked,
    layer: int,
    tokens: int = 8,
    until: Sequence[str] = ("\n",),
    kept: int = 2048,
) -> str:
    """The greedy answer up to the first stop string; of the prompt its last `kept` tokens run."""
    ids = oracle.ids(a.prompt)
    cut = max(0, len(ids) - kept)
    vectors, positions = _left(oracle, a, cut)
    new: list[int] = []
    while len(new) < tokens:
        logits = oracle.logits([*ids[cut:], *new], layer, vectors, positions)
        new.append(int(logits[-1].argmax()))
        if new[-1] == oracle.tokenizer.eos_token_id:
            break
    text: str = oracle.tokenizer.decode(new, skip_special_tokens=True)
    for stop in until:
        text = text.split(stop)[0]
    return text


def _left(oracle: Oracle, a: Asked, cut: int) -> tuple[list[Tensor], list[int]]:
    """The vectors, and their cues' positions, that are left where the first tokens are cut off."""
    places = [cue - cut for cue in cues(oracle, a.prompt)[-len(a.vectors) :]]
    left = [place for place in places if place >= 0]
    return a.vectors[-len(left) :], left
