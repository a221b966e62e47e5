"""What steering asks of a task, wherever its documents come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Document = Mapping[str, Any]


class Context(Protocol):
    """A task as the methods use it: its few-shot documents, its prompts, its answers."""

    @property
    def name(self) -> str:
        """The task's name."""

    @property
    def shots(self) -> int:
        """Demonstrations in the prompts that are injected into."""

    @property
    def delimiter(self) -> str:
        """What stands between a prompt and its answer."""

    @property
    def choices(self) -> bool:
        """Whether the task is answered by the likeliest of given choices."""

    def pool(self) -> list[Document]:
        """The documents of the few-shot split: demonstrations, dummies, development queries."""

    def identity(self, document: Document) -> str:
        """What makes two documents the same for an episode, which holds each at most once."""

    def key(self, document: Document) -> str:
        """What makes two documents the same for a run: all they hold."""

    def order(self, document: Document, draw: str | int, seed: int) -> list[Document]:
        """The few-shot documents in the order in which episodes about `document` use them.

        A function of its arguments alone. No two of them have one identity, none that of
        `document`.
        """

    def prompt(self, demonstrations: Sequence[Document], query: Document) -> str:
        """The prompt that asks `query` after these demonstrations."""

    def answers(self, document: Document) -> list[str]:
        """Every accepted answer of the document, the target first."""

    def new_tokens(self, default: int) -> int:
        """Tokens a generated answer may take, for which a prompt leaves room.

        The task says it, or else `default` holds; 0 where given answers are scored.
        """

    def choice_texts(self, document: Document) -> list[str]:
        """The choices of a choice task, as they follow the prompt's delimiter."""
