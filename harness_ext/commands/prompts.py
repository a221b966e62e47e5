"""Prompts of recorded samples, which are kept without them: built again from this package's tasks.

The tasks draw demonstrations by hashes of few-shot seed, query and pair alone, so that one document
is enough to know its prompt. They are the tasks as they are now: a document that is no longer in
its task has no prompt.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from harness_ext.compare.evaluations import Evaluation, PromptOf, Sample


def rebuilder() -> PromptOf:
    """A function that builds a sample's prompt; it loads a task when it is first asked for it.

    None for a task that is not this package's, a document that is not in it, an evaluation whose
    shots or few-shot seed are not known, and one with a chat template or a system instruction.
    """

    @cache
    def load(name: str) -> tuple[Any, dict[str, Any]] | None:
        """The task, and its tested documents by the hash that lm-eval gives them."""
        from lm_eval.utils import handle_non_serializable, hash_string

        from harness_ext import local_tasks

        manager = local_tasks.index(None)
        if name not in manager.task_index:
            return None
        for task in local_tasks.load(manager, [name]):
            documents = {
                hash_string(
                    json.dumps(
                        document, indent=2, default=handle_non_serializable, ensure_ascii=False
                    )
                ): document
                for document in task.eval_docs
            }
            return task, documents
        return None

    def prompt_of(evaluation: Evaluation, sample: Sample) -> str | None:
        if evaluation.facts.keys() & {"chat template", "system instruction"}:
            return None
        if evaluation.shots is None or evaluation.seed is None:
            return None
        found = load(evaluation.task)
        if found is None:
            return None
        task, documents = found
        document = next(
            (own for name, own in documents.items() if name.startswith(sample.doc_hash)), None
        )
        if document is None:
            return None
        task.set_fewshot_seed(seed=evaluation.seed)
        return str(task.fewshot_context(document, num_fewshot=evaluation.shots))

    return prompt_of
