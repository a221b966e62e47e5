"""What every steering method is given, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness_ext.config import SteeringConfig
from harness_ext.errors import UsageError
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.inject import Injection
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder
from harness_ext.steering.task_context import Document, TaskContext


@dataclass(frozen=True)
class Bench:
    """A model ready to be measured: its parts, its prompts' encoder, and the configuration.

    max_length: tokens the model takes. progress: whether to show progress bars.
    """

    anatomy: Anatomy
    encoder: PromptEncoder
    config: SteeringConfig
    max_length: int
    progress: bool

    def extraction(self, text: str) -> EncodedPrompt:
        """An extraction prompt. Raises :class:`UsageError` where it exceeds the model's length."""
        prompt = self.encoder.prompt(text)
        if len(prompt.ids) > self.max_length:
            raise UsageError(
                f"an extraction prompt of demos={self.config.demos} has {len(prompt.ids)} tokens, "
                f"but the model takes max_length={self.max_length}. Lower demos."
            )
        return prompt


@dataclass(frozen=True)
class Plan:
    """What a method does to one task.

    injections: one per document asked about, in order. record: settings and findings for the
    results file, JSON-able.
    """

    injections: list[Injection]
    record: dict[str, Any]


class Method(ABC):
    """Turns a task's documents into injections. One instance serves one model for its lifetime."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @abstractmethod
    def plan(self, context: TaskContext, documents: Sequence[Document]) -> Plan:
        """The injections for `documents` of the task, each a function of its document alone."""
