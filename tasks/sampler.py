"""Demonstrations drawn for each document by itself: `sampler: !function sampler.EpisodeSampler`.

`BalancedSampler` draws them with all labels, and `shuffled_words` shows them with their words in
disorder.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from hashlib import sha256
from random import SystemRandom
from typing import Any

from lm_eval.api.samplers import ContextSampler

from harness_ext.errors import UsageError

Document = dict[str, Any]


class EpisodeSampler(ContextSampler):
    """Draws demonstrations that depend on the tested document and on no other.

    lm-eval's own sampler advances one generator from document to document, so that demonstrations
    depend on --limit, on the order of documents and on the number of processes. Here they follow
    from the few-shot seed, the document's query and draw number, and the pairs there are.
    """

    def __init__(
        self, df: Sequence[Document] | None = None, *, rnd: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(df, rnd=rnd, **kwargs)
        self.set_rnd(rnd)

    def set_rnd(self, rnd: int | None) -> EpisodeSampler:
        """Take lm-eval's few-shot seed; None asks for no fixed seed, so one is drawn."""
        self._seed = SystemRandom().getrandbits(32) if rnd is None else rnd
        return self

    def order(self, doc: Document, draw: int | str = 0) -> list[Document]:
        """All demonstrations available to the document, in the order in which they are used.

        Each pair stands there once; where both its sides are queries, the draw picks one. Left out
        is every pair with the document's query in it, as a query or as a target: the tested pair,
        a mirrored one, and the one that leads up to it in a chain (a → b, where b is the query).
        `draw` tells several orders for one document apart.

        The order is that of hashes of seed, query, draw numbers and pair. So tasks over one list
        use the same pairs for the same query, and adding a pair to a list moves no other.
        """
        by_pair: dict[str, list[Document]] = defaultdict(list)
        for candidate in self.fewshot_docs():
            by_pair[candidate["pair"]].append(candidate)
        key = json.dumps([self._seed, doc["query"], doc["draw"], draw])
        ranked = sorted(
            (sha256(f"{key}{pair}".encode()).digest(), pair)
            for pair, shown in by_pair.items()
            if pair != doc["pair"]
            and not any(doc["query"] in (other["query"], other["target"]) for other in shown)
        )
        return [by_pair[pair][digest[-1] % len(by_pair[pair])] for digest, pair in ranked]

    def sample(self, n: int, eval_doc: Document | None = None, **kwargs: Any) -> Sequence[Document]:
        """The first n demonstrations of `order`: fewer shots are the beginning of more.

        Raises :class:`UsageError` where there are fewer, or without the document they are for.
        """
        if eval_doc is None:
            raise UsageError(
                "EpisodeSampler draws for one document and was given none. In a task's YAML it "
                "goes together with class: !function word_task.WordTask."
            )
        available = self.order(eval_doc)
        if n > len(available):
            raise UsageError(
                f"{n} demonstrations asked for the query {eval_doc['query']!r}, "
                f"{len(available)} available. Ask for at most {len(available)}."
            )
        return available[:n]


class BalancedSampler(EpisodeSampler):
    """Draws demonstrations in which every label occurs as often as any other, give or take one.

    For tasks with few labels. Drawn at random, eight demonstrations leave out one of four labels in
    38 % of the prompts, and the very label of the query in 10 %. An answer outside the labels shown
    is then the prompt's doing, and a score of heads that compares the labels shown has nothing to
    compare. The query is drawn apart from its demonstrations, so they say nothing about its label.
    """

    def order(self, doc: Document, draw: int | str = 0) -> list[Document]:
        """The demonstrations in rounds: one of each label, another one of each, and so on.

        Every round keeps the order of `EpisodeSampler.order`, in which labels follow no pattern.
        A label that has run out is left out of later rounds.
        """
        ranked = super().order(doc, draw)
        shown: Counter[str] = Counter()
        rounds: list[int] = []
        for candidate in ranked:
            rounds.append(shown[candidate["target"]])
            shown[candidate["target"]] += 1
        order = sorted(range(len(ranked)), key=rounds.__getitem__)
        return [ranked[place] for place in order]


def shuffled_words(doc: Document) -> str:
    """The prompt of a demonstration with the words of its query in disorder, case and all.

    `fewshot_config: {doc_to_text: !function sampler.shuffled_words}` shows demonstrations so and
    leaves the tested query alone. The disorder follows from the query, and never is its own order
    unless there is no other: a sentence stands the same way in every prompt, be it one that is
    answered or one that a vector is read from.
    """
    words = doc["query"].split()
    for attempt in range(100):
        keys = [
            sha256(f"{attempt} {n} {doc['query']}".encode()).digest() for n in range(len(words))
        ]
        shuffled = [words[n] for n in sorted(range(len(words)), key=keys.__getitem__)]
        if shuffled != words:
            break
    return f"Example: {' '.join(shuffled)} →"
