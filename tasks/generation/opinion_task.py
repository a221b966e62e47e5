"""A task with open answers: `class: !function opinion_task.OpinionTask` in a task's YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.tasks._yaml_loader import load_yaml

from harness_ext.errors import UsageError
from harness_ext.pair_lists import Pair

# lm-eval loads this file by its path, so it cannot import its neighbours: it asks lm-eval for them.
_BASE = load_yaml(Path(__file__).parents[1] / "_word_task.yaml")["class"]

TONES = ("positive", "negative")


class OpinionTask(_BASE):  # type: ignore[misc, valid-type]
    """Subjects, each answered with any sentence of one tone; those of the list are examples of it.

    The YAML gives the tone as `dataset_kwargs`, in addition to the direction `forward`, and the
    metrics see it as `doc["tone"]`. A pair is named by its subject alone: tasks over the same
    subjects show them in the same order, so that prompts of one subject differ in tone only.
    """

    tone: str

    def read(self, options: Mapping[str, Any]) -> list[Pair]:
        """The pairs of subject and sentence. Raises :class:`UsageError` for an unknown tone."""
        self.tone = str(options.get("tone"))
        if self.tone not in TONES:
            raise UsageError(
                f"{self.task_name}: tone={self.tone} is not known. Write dataset_kwargs: "
                f"{{direction: forward, tone: …}} into the task's YAML with one of "
                f"{', '.join(TONES)}."
            )
        return [pair._replace(alias=pair.x[0]) for pair in super().read(options)]

    def process_results(self, doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """The scores of one answer."""
        scores: dict[str, Any] = super().process_results({**doc, "tone": self.tone}, results)
        return scores
