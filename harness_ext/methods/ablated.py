"""A model without some of its attention heads (`method=none` with `ablate`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness_ext.heads.ablate import Ablation, mean_inputs
from harness_ext.methods.base import Method, Plan
from harness_ext.methods.extraction import extraction_prompts
from harness_ext.methods.head_scores import heads_by, scoring_episodes
from harness_ext.steering.context import Context, Document


class Ablated(Method):
    """Knocks the heads of one kind out while a task's prompts run; nothing is injected.

    The heads are the task's own, chosen on episodes of its few-shot split.
    """

    def cues(self, context: Context) -> int:
        """One: the last."""
        return 1

    def plan(self, context: Context, documents: Sequence[Document]) -> Plan:
        """See :meth:`Method.plan`. The same heads for all of the task."""
        config, attention = self.bench.config, self.bench.attention
        choice = heads_by(config.ablate, self.bench, context)
        heads = torch.zeros(attention.layers, attention.heads, dtype=torch.bool)
        for layer, head in choice.heads:
            heads[layer, head] = True
        values = self._means(context) if config.ablate_with == "mean" else None
        record = {
            "shots": context.shots,
            **choice.record,
            "ablate_at": config.ablate_at,
            "ablate_with": config.ablate_with,
        }
        return Plan([((),)] * len(documents), record, Ablation(heads, values))

    def _means(self, context: Context) -> Tensor:
        """The heads' mean outputs [layers, heads, size] in the prompts they are scored on."""
        episodes = scoring_episodes(self.bench, context)
        prompts = [p for e in episodes for p in extraction_prompts(self.bench, context, e)]
        at_cues = self.bench.config.ablate_at == "cue"
        return mean_inputs(
            self.bench.attention,
            [prompt.up_to_cue for prompt in prompts],
            [prompt.cue for prompt in prompts] if at_cues else None,
        )
