"""What every steering method is given, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from harness_ext.config import SteeringConfig
from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.context import Context, Document
from harness_ext.steering.fingerprint import fingerprint
from harness_ext.steering.inject import Injection
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder


class Memory:
    """What is known of a model as long as its weights stay.

    Its fingerprint, and states of prompts that ran before, of one task at a time. budget: bytes
    that the states may take.
    """

    def __init__(self, budget: int = 128 * 2**20) -> None:
        self.budget = budget
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._task: str | None = None
        self._states: dict[Hashable, Tensor] = {}
        self.fingerprint: dict[str, str] | None = None

    def of(self, task: str) -> dict[Hashable, Tensor]:
        """States by prompt [first layers, last cues, width]; another task's are forgotten."""
        if task != self._task:
            self._task, self._states = task, {}
        return self._states

    def has_room(self, n_bytes: int) -> bool:
        """Whether so many bytes more fit the budget."""
        return n_bytes + sum(states.nbytes for states in self._states.values()) <= self.budget


@dataclass(frozen=True)
class Bench:
    """A model ready to be measured: its parts, its prompts' encoder, and the configuration.

    name, revision: of the model, as it was asked for. max_length: tokens it takes. max_gen_toks:
    tokens of an answer where the task does not say. rank, world_size: of this process among those
    that share the requests.
    """

    anatomy: Anatomy
    encoder: PromptEncoder
    config: SteeringConfig
    max_length: int
    name: str = ""
    revision: str = ""
    max_gen_toks: int = 0
    rank: int = 0
    world_size: int = 1
    memory: Memory = field(default_factory=Memory, compare=False)

    @property
    def progress(self) -> bool:
        """Whether this process shows progress bars."""
        return self.rank == 0

    def fingerprint(self) -> dict[str, str]:
        """See :mod:`harness_ext.steering.fingerprint`."""
        if self.memory.fingerprint is None:
            self.memory.fingerprint = fingerprint(self.anatomy.model, self.encoder.tokenizer)
        return self.memory.fingerprint

    def extraction(self, text: str, cues: int = 1) -> EncodedPrompt:
        """An extraction prompt. Raises :class:`UsageError` where it exceeds the model's length."""
        prompt = self.encoder.prompt(text, cues)
        if len(prompt.ids) > self.max_length:
            raise UsageError(
                f"an extraction prompt of demos={self.config.demos} has {len(prompt.ids)} tokens, "
                f"but the model takes max_length={self.max_length}. Lower demos."
            )
        return prompt


@dataclass(frozen=True)
class Plan:
    """What a method does to one task.

    injections: per document asked about, in order, one for each of the prompt's last cues. record:
    settings and findings for the results file, JSON-able.
    """

    injections: list[tuple[Injection, ...]]
    record: dict[str, Any]


class Method(ABC):
    """Turns a task's documents into injections. One instance serves one model for its lifetime."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @abstractmethod
    def cues(self, context: Context) -> int:
        """How many of a tested prompt's cues are injected at, counted from its end."""

    @abstractmethod
    def plan(self, context: Context, documents: Sequence[Document]) -> Plan:
        """The injections for `documents` of the task, each a function of its document alone."""
