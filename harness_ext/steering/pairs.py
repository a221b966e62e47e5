"""Pairs at hand, (x, y), as a task: its documents, its prompts, its answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness_ext.errors import UsageError
from harness_ext.steering.context import Document

PLACE = "{x}"
"""What a template holds in the place of the input."""


@dataclass(frozen=True)
class PairContext:
    """A :class:`~harness_ext.steering.context.Context` over pairs; prompts have no shots.

    accepted: input → its accepted answers, the one that demonstrations show first. groups: input →
    what it has in common with its mirrors, which are one pair to an episode. template: the text
    that asks, :data:`PLACE` and then the cue in it. delimiter: between the cue and the answer.
    separator: between demonstrations.
    """

    accepted: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, str]
    template: str
    delimiter: str
    separator: str

    @classmethod
    def of(
        cls,
        pairs: Iterable[tuple[str, str | Sequence[str]]],
        template: str,
        delimiter: str,
        separator: str,
    ) -> PairContext:
        """The pairs (x, y), y one accepted answer or several.

        Raises :class:`UsageError` for what is no pair of texts, an empty word, an x that occurs
        twice, the cue inside a word, and a template without :data:`PLACE` or without a cue at its
        end.
        """
        cue = cue_of(template)
        accepted: dict[str, tuple[str, ...]] = {}
        for pair in pairs:
            x, answers = _read(pair)
            for word in (x, *answers):
                if not word.strip():
                    raise UsageError(f"the pair {pair!r} has an empty word; fill or drop it.")
                if cue in word:
                    raise UsageError(
                        f"the cue {cue!r} also occurs inside {word!r}, so it could not be told "
                        "from the word. Choose a template that ends in another cue."
                    )
            if x in accepted:
                raise UsageError(
                    f"{x!r} begins several pairs: {accepted[x]} and {answers}. Give each x once; "
                    "several accepted answers go into one pair, (x, [y, ...])."
                )
            accepted[x] = answers
        return cls(accepted, _groups(accepted), template, delimiter, separator)

    def check_room(self, demos: int, queries: int) -> None:
        """Whether the pairs are enough for prompts of so many demonstrations and dummy queries.

        Raises :class:`UsageError`.
        """
        found, needed = len(set(self.groups.values())), demos + queries + 1
        if found < needed:
            most = found - queries - 1
            mirrors = ", counting a pair and its mirror once" if found < len(self.accepted) else ""
            raise UsageError(
                f"demos={demos} with queries={queries} needs {needed} pairs, one of which stays "
                f"out of the prompt; there are {found}{mirrors}. Give more pairs"
                + (f", or lower demos to {most}." if most > 0 else ".")
            )

    @property
    def cue(self) -> str:
        """The text that ends an input, right before the answer."""
        return cue_of(self.template)

    @property
    def name(self) -> str:
        """What messages call the pairs."""
        return "pairs"

    @property
    def shots(self) -> int:
        """None: the vector is made for prompts without demonstrations."""
        return 0

    @property
    def choices(self) -> bool:
        """False: answers are free."""
        return False

    def pool(self) -> list[Document]:
        """Every pair, as a document with `x` and `answers`."""
        return [{"x": x, "answers": answers} for x, answers in self.accepted.items()]

    def identity(self, document: Document) -> str:
        """The same for a pair and its mirrors."""
        return self.groups[document["x"]]

    def key(self, document: Document) -> str:
        """The input: no two pairs share one."""
        return str(document["x"])

    def order(self, document: Document, draw: str | int, seed: int) -> list[Document]:
        """The other pairs, shuffled; of a pair and its mirrors, one. A function of its arguments.

        draw, seed: tell the orders for one document apart.
        """
        own = self.identity(document)
        others = [other for other in self.pool() if self.identity(other) != own]
        random.Random(json.dumps([seed, draw, document["x"]])).shuffle(others)
        first: dict[str, Document] = {}
        for other in others:
            first.setdefault(self.identity(other), other)
        return list(first.values())

    def prompt(self, demonstrations: Sequence[Document], query: Document) -> str:
        """Demonstrations with their answers, then the query up to its cue."""
        shown = [self._ask(d) + self.delimiter + self.answers(d)[0] for d in demonstrations]
        return self.separator.join([*shown, self._ask(query)])

    def answers(self, document: Document) -> list[str]:
        """Every accepted answer, the one that demonstrations show first."""
        return list(document["answers"])

    def new_tokens(self, default: int) -> int:
        """Zero: no prompt is cut."""
        return 0

    def choice_texts(self, document: Document) -> list[str]:
        """None: answers are free."""
        return []

    def _ask(self, document: Document) -> str:
        return self.template.replace(PLACE, document["x"])


def cue_of(template: str) -> str:
    """The cue of a template: what follows :data:`PLACE`, white space before it dropped.

    Raises :class:`UsageError` where there is none.
    """
    example = "such as 'Example: {x} →'"
    if template.count(PLACE) != 1:
        raise UsageError(
            f"template={template!r} has {PLACE} {template.count(PLACE)} times; it takes a text "
            f"that has it once, {example}."
        )
    cue = template.partition(PLACE)[2].lstrip()
    if not cue or cue != cue.rstrip():
        raise UsageError(
            f"template={template!r} does not end in a cue; it takes a text in which something "
            f"other than white space comes last, {example}. The answer follows after delimiter."
        )
    if "{y}" in cue:
        raise UsageError(
            f"template={template!r} holds the answer; it takes the text up to the cue, {example}. "
            "The answer follows after delimiter."
        )
    return cue


def _read(pair: Any) -> tuple[str, tuple[str, ...]]:
    """x and its answers."""
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        x, y = pair
        answers = (y,) if isinstance(y, str) else tuple(y) if isinstance(y, (tuple, list)) else ()
        if answers and all(isinstance(word, str) for word in (x, *answers)):
            return x, answers
    raise UsageError(
        f"{pair!r} is not a pair; pairs takes (x, y), x a text and y a text or a list of accepted "
        "answers."
    )


def _groups(accepted: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Inputs that are each other's mirrors, (a, b) and (b, a), by one of them."""
    groups = {x: x for x in accepted}
    for x, answers in accepted.items():
        for y in answers:
            if x in accepted.get(y, ()) and groups[y] != groups[x]:
                ours, theirs = groups[x], groups[y]
                groups = {word: ours if own == theirs else own for word, own in groups.items()}
    return groups
