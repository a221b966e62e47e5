"""From lm-eval's requests to the rows that are run: which ids, and what is done to them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from lm_eval.api.instance import Instance

from harness_ext import checks
from harness_ext.heads.ablate import Ablation
from harness_ext.methods import AtCues, Method
from harness_ext.rows import RowPlan
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder
from harness_ext.steering.task_context import context_of

log = logging.getLogger(__name__)

Encode = Callable[[PromptEncoder, Instance, int], EncodedPrompt]
"""The prompt of a request as it is fed, with so many of its last cues."""


def plan_requests(
    method: Method, requests: Sequence[Instance], encode: Encode
) -> tuple[list[RowPlan], dict[str, dict[str, Any]]]:
    """A plan per request, and per task the record of what was done.

    Every task and every prompt is checked before the first vectors, which may take long, are made.
    Raises :class:`UsageError` for what cannot be steered.
    """
    bench = method.bench
    by_task: dict[str, list[int]] = defaultdict(list)
    for number, request in enumerate(requests):
        by_task[str(request.task_name)].append(number)
    contexts = {name: context_of(name) for name in by_task}
    for name, numbers in by_task.items():
        documents = {requests[n].doc_id: requests[n].doc for n in numbers}
        checks.check_task(bench.config, contexts[name], documents)
    cues = {name: method.cues(context) for name, context in contexts.items()}
    prompts = {
        n: encode(bench.encoder, requests[n], cues[name])
        for name, numbers in by_task.items()
        for n in numbers
    }
    plans: dict[int, RowPlan] = {}
    records: dict[str, dict[str, Any]] = {}
    for name, numbers in by_task.items():
        plan = method.plan(contexts[name], [requests[n].doc for n in numbers])
        for n, injections in zip(numbers, plan.injections, strict=True):
            plans[n] = _row(prompts[n], injections, plan.ablation)
        cut = sum(prompts[n].dropped > 0 for n in numbers)
        records[name] = {**plan.record, "prompts_cut": cut}
        if cut:
            log.warning(
                "%s: %d of %d prompts exceed max_length and lose their beginning; what is done to "
                "cues is done to those that are left.",
                name,
                cut,
                len(numbers),
            )
    return [plans[n] for n in range(len(requests))], records


def _row(prompt: EncodedPrompt, injections: AtCues, ablation: Ablation | None) -> RowPlan:
    """The injections are for the prompt's last cues, of which truncation may have cut some."""
    own = zip(prompt.cues, injections[-len(prompt.cues) :], strict=True)
    edits = tuple((cue, injection) for cue, several in own for injection in several)
    return RowPlan(prompt.ids, edits, prompt.cues, ablation)
