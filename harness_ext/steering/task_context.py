"""The lm-eval tasks behind a model's requests.

A request names its task but does not hold it, and loading the task again by its name would lose
inline tasks, include paths and overrides. So every task is noted, weakly, as lm-eval builds its
requests, together with how it renders its prompts (chat template, system instruction).
"""

from __future__ import annotations

import functools
import json
import random
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
from lm_eval.api.samplers import ContextSampler
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import env

from harness_ext.errors import UsageError
from harness_ext.steering.context import Document

_RENDERING = ("system_instruction", "apply_chat_template", "fewshot_as_multiturn", "chat_template")
_seen: weakref.WeakValueDictionary[str, Task] = weakref.WeakValueDictionary()
_rendering: weakref.WeakKeyDictionary[Task, dict[str, Any]] = weakref.WeakKeyDictionary()


def watch_tasks() -> None:
    """From now on, note every task whose requests lm-eval builds. Calling it again does nothing.

    lm-eval compiles a task's templates anew for each document it renders, which takes longer than
    the rendering: an episode renders many, so compiled templates are kept as well.
    """
    if not hasattr(env.from_string, "cache_info"):
        env.from_string = functools.lru_cache(maxsize=256)(env.from_string)
    build = Task.build_all_requests
    if getattr(build, "watches", False):
        return

    @functools.wraps(build)
    def build_all_requests(self: Task, **kwargs: Any) -> None:
        _seen[self.task_name] = self
        _rendering[self] = {name: kwargs[name] for name in _RENDERING if name in kwargs}
        build(self, **kwargs)

    vars(build_all_requests)["watches"] = True
    Task.build_all_requests = build_all_requests


def context_of(task_name: str) -> TaskContext:
    """The noted task of that name. Raises :class:`UsageError` for one lm-eval never built."""
    task = _seen.get(task_name)
    if task is None:
        raise UsageError(
            f"requests of task {task_name!r} came without the task: taskvec-hf draws "
            "demonstrations from it, so run it through lm-eval's evaluate or simple_evaluate."
        )
    if not isinstance(task, ConfigurableTask):
        raise UsageError(
            f"task {task_name!r} is a {type(task).__name__}, not a YAML task; taskvec-hf can "
            "render demonstrations of ConfigurableTask only. Run it with method=none."
        )
    return TaskContext(task, _rendering[task])


@dataclass(frozen=True)
class TaskContext:
    """An lm-eval task as steering uses it: the :class:`Context` of its few-shot split."""

    task: ConfigurableTask
    rendering: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.task_name

    @property
    def shots(self) -> int:
        """Demonstrations in the prompts that are injected into."""
        return self.task.config.num_fewshot or 0

    @property
    def delimiter(self) -> str:
        """What stands between a prompt and its answer (in a chat, only after a prefilled text)."""
        config = self.task.config
        prefilled = bool(config.gen_prefix) and not config.gen_prefix[-1].isspace()
        if self.rendering.get("apply_chat_template") and not prefilled:
            return ""
        return config.target_delimiter

    @property
    def choices(self) -> bool:
        """Whether the task is answered by the likeliest of given choices."""
        return self.task.OUTPUT_TYPE == "multiple_choice"

    def pool(self) -> list[Document]:
        """The documents of the task's few-shot split.

        Raises :class:`UsageError` where these are the tested documents: vectors would hold their
        answers, and the layer would be chosen on them.
        """
        config, shots = self.task.config, self.task.fewshot_cfg
        tested = config.test_split or config.validation_split
        split = shots.split or config.training_split or config.validation_split or tested
        if split == tested and (shots.split is not None or shots.samples is None):
            raise UsageError(
                f"task {self.name!r} has no few-shot split of its own (fewshot_split, "
                f"training_split or fewshot_config.samples): demonstrations would come from "
                f"{tested!r}, the tested documents. Give it one, or run method=none."
            )
        return list(self.task.fewshot_docs())

    def identity(self, document: Document) -> str:
        """What makes two documents the same for an episode: their pair, or else their text."""
        pair = document.get("pair") if self._own else None
        return self.text(document) if pair is None else f"pair {pair}"

    def key(self, document: Document) -> str:
        """What makes two documents the same for a run: all they hold, the draw number included."""
        return json.dumps(document, sort_keys=True, default=str, ensure_ascii=False)

    def order(self, document: Document, draw: str | int, seed: int) -> list[Document]:
        """The few-shot documents in the order in which episodes about `document` use them.

        A function of its arguments alone. Holds neither the document itself nor another one with
        its text. Tasks of this package bring their own order, in which lm-eval draws the shots of
        the document too (`draw` 0): in-context learning and the vector see the same ones.
        """
        if self._own:
            return list(self.task.sampler.order(document, draw))
        own = self.identity(document)
        shuffled = [other for text, other in self._by_identity.items() if text != own]
        key = json.dumps([seed, self.name, draw, own], ensure_ascii=False)
        random.Random(key).shuffle(shuffled)
        return shuffled

    def text(self, document: Document) -> str:
        """The document's own input text.

        Raises :class:`UsageError` where it is not a text, and where the document lacks a field.
        """
        try:
            text = self.task.doc_to_text(document)
        except (jinja2.UndefinedError, KeyError) as error:
            raise UsageError(
                f"doc_to_text of task {self.name!r} does not fit a document with the fields "
                f"{', '.join(document)}: {error}. Few-shot documents serve as queries as well, so "
                "they need the fields that tested ones have."
            ) from error
        if not isinstance(text, str):
            raise UsageError(
                f"task {self.name!r} puts its choices into the prompt (doc_to_text is an index); "
                "taskvec-hf needs one prompt per document. Run it with method=none."
            )
        return text

    def prompt(self, demonstrations: Sequence[Document], query: Document) -> str:
        """The prompt lm-eval itself would write for `query` after these demonstrations."""
        task = self.task
        sampler, task.sampler = task.sampler, _Fixed(demonstrations)
        try:
            return task.fewshot_context(
                query,
                num_fewshot=len(demonstrations),
                gen_prefix=task.doc_to_prefix(query),
                **self.rendering,
            )
        finally:
            task.sampler = sampler

    def answers(self, document: Document) -> list[str]:
        """Every accepted answer of the document, the target first."""
        if self._own:
            return list(self.task.accepted_answers(document))
        target = self.task.doc_to_target(document)
        targets = target if isinstance(target, list) else [target]
        if self.task.config.doc_to_choice is not None:
            choices = self.task.doc_to_choice(document)
            targets = [choices[t] if isinstance(t, int) else t for t in targets]
        return [str(t) for t in targets]

    def new_tokens(self, default: int) -> int:
        """See :meth:`Context.new_tokens`."""
        if self.task.OUTPUT_TYPE != "generate_until":
            return 0
        given = normalize_gen_kwargs(dict(self.task.config.generation_kwargs or {}), default)
        return int(given["max_gen_toks"])

    def choice_texts(self, document: Document) -> list[str]:
        """The choices of a choice task, as they follow the prompt's delimiter."""
        return [str(choice) for choice in self.task.doc_to_choice(document)]

    @functools.cached_property
    def _by_identity(self) -> dict[str, Document]:
        """The few-shot documents, of those that are the same for an episode the last."""
        return {self.identity(document): document for document in self.pool()}

    @property
    def _own(self) -> bool:
        """Whether the task brings this package's own sampler."""
        return hasattr(self.task.sampler, "order")


class _Fixed(ContextSampler):
    """Hands out the given demonstrations, in their order, so that lm-eval renders an episode."""

    def __init__(self, demonstrations: Sequence[Document]) -> None:
        super().__init__(df=list(demonstrations))

    def sample(self, n: int, eval_doc: Any = None, df: Any = None, **_: Any) -> Any:
        return list(self.df)[:n]
