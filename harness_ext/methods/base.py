"""What every steering method is given, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from harness_ext.config import SteeringConfig
from harness_ext.errors import UsageError
from harness_ext.heads.ablate import Ablation
from harness_ext.steering.anatomy import Anatomy
from harness_ext.steering.attention import Attention, dissect_attention
from harness_ext.steering.context import Context, Document
from harness_ext.steering.fingerprint import fingerprint
from harness_ext.steering.inject import Injection
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder


class Memory:
    """What is known of a model as long as its weights stay.

    Its fingerprint, its attention taken apart, the heads' induction scores by seed, and states of
    prompts that ran before, of one task at a time. budget: bytes that the states may take.
    """

    def __init__(self, budget: int = 128 * 2**20) -> None:
        self.budget = budget
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._task: str | None = None
        self._states: dict[Hashable, Tensor] = {}
        self.fingerprint: dict[str, str] | None = None
        self.attention: Attention | None = None
        self.induction: dict[int, Tensor] = {}

    def of(self, task: str) -> dict[Hashable, Tensor]:
        """States by prompt [first layers, last cues, width], and what heads wrote in it by `heads`
        and prompt [layers, heads, width]; another task's are forgotten."""
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

    @property
    def attention(self) -> Attention:
        """The model's attention heads, found when they are first asked for.

        Raises :class:`UsageError` where attention cannot be split into heads.
        """
        if self.memory.attention is None:
            self.memory.attention = dissect_attention(self.anatomy)
        return self.memory.attention

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


AtCues = tuple[tuple[Injection, ...], ...]
"""For each of a prompt's last cues, in order, what is injected there (at several layers, say)."""


@dataclass(frozen=True)
class Plan:
    """What a method does to one task.

    injections: per document asked about, in order. record: settings and findings for the results
    file, JSON-able. ablation: heads that are knocked out while the task's prompts run.
    """

    injections: Sequence[AtCues]
    record: dict[str, Any]
    ablation: Ablation | None = None


class Method(ABC):
    """Decides what is done to a task's documents. One instance serves one model for its life."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @abstractmethod
    def cues(self, context: Context) -> int:
        """How many of a tested prompt's cues are steered at, counted from its end."""

    @abstractmethod
    def plan(self, context: Context, documents: Sequence[Document]) -> Plan:
        """What to do to `documents` of the task, to each a function of its document alone."""
