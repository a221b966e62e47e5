"""A task over a data set of the hub: `class: !function hub_task.HubTask` in a task's YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
import jinja2
from lm_eval.tasks._yaml_loader import load_yaml
from lm_eval.utils import apply_template

from harness_ext.errors import UsageError
from harness_ext.pair_lists import Pair

# lm-eval loads this file by its path, so it cannot import its neighbours: it asks lm-eval for them.
_BASE = load_yaml(Path(__file__).parents[2] / "_word_task.yaml")["class"]

POOL = 2000
_OPTIONS = ("text", "label", "labels", "splits")


class HubTask(_BASE):  # type: ignore[misc, valid-type]
    """Texts of a data set of the hub, each answered with its label.

    The YAML gives the data set as `dataset_path` and `dataset_name`, and as `dataset_kwargs`, in
    addition to the direction `forward`:

    - text: a template over the data set's columns, rendered on one line,
    - label, labels: the column of the label, and the word for each of its values; rows with another
      value are left out,
    - splits: the data set's splits that serve as `train` and `test`.

    What else it holds goes to `datasets.load_dataset`. Demonstrations are drawn from 2000 rows of
    the train split, chosen once and for all, or from all of a smaller one. Of several rows with one
    text the first counts, and a text of both splits is tested, not shown.
    """

    def read(self, options: Mapping[str, Any]) -> list[Pair]:
        """The rows as pairs of text and label.

        Raises :class:`UsageError` where the data set cannot be had, or lacks what the YAML names.
        """
        rest = dict(options)
        try:
            text, label, labels, splits = (rest.pop(name) for name in _OPTIONS)
            train, test = splits["train"], splits["test"]
        except KeyError as error:
            raise UsageError(
                f"{self.task_name}: dataset_kwargs lacks {error}. A task over a data set of the "
                f"hub needs {', '.join(_OPTIONS)}, the last one with train and test."
            ) from None
        loaded = self._load([train, test], rest)
        pool = loaded[0].shuffle(seed=0)
        pool = pool.select(range(min(POOL, len(pool))))
        pairs: dict[str, Pair] = {}
        for split, rows in (("test", loaded[1]), ("train", pool)):
            for pair in self._pairs(rows, split, text, label, labels):
                pairs.setdefault(pair.x[0], pair)
        return list(pairs.values())

    def _load(self, splits: list[str], options: Mapping[str, Any]) -> list[datasets.Dataset]:
        try:
            loaded: list[datasets.Dataset] = datasets.load_dataset(
                self.DATASET_PATH, self.DATASET_NAME, split=splits, **options
            )
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.task_name}: the data set {self.DATASET_PATH} cannot be loaded ({error}). "
                "It is fetched from the hub at first use, which needs network; the tasks "
                "classify_sentiment, classify_subjectivity, classify_topic and classify_question "
                "need none."
            ) from error
        return loaded

    def _pairs(
        self, rows: datasets.Dataset, split: str, text: str, label: str, labels: Mapping[Any, str]
    ) -> Iterable[Pair]:
        try:
            for row in rows:
                if row[label] in labels:
                    query = " ".join(apply_template(text, row).split())
                    yield Pair((query,), (labels[row[label]],), split)
        except (KeyError, jinja2.UndefinedError) as error:
            raise UsageError(
                f"{self.task_name}: {self.DATASET_PATH} has the columns "
                f"{', '.join(rows.column_names)}, which do not fit text={text!r}, label={label!r} "
                f"({error})."
            ) from error
