"""The columns of a leaderboard: by which score a task is compared, and means over which tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.text import listed

OVERALL = "mean"
SEVERAL = "several"
CATEGORIES = ("forward", "inverse", "bijection", "classify", "generate")
# What a task is compared by: the first of these that it has, else the first in its results file.
# This package's headline, then what lm-eval's tasks are usually reported by.
HEADLINES = (
    "answer_match", "acc_norm", "acc", "exact_match", "em", "f1", "mc2", "mc1", "pass@1", "bleu",
    "chrf", "rougeL_max", "rougeL", "word_perplexity", "perplexity",
)  # fmt: skip
# Scores that lie between 0 and 1 for every answer; of others it is not known.
SHARES = (
    "answer_match", "exact_match", "tr_ratio", "pair_match", "side_match", "acc", "acc_norm",
    "acc_bytes", "em", "f1", "mc1", "mc2", "contains", "pass@1", "tone_match", "opinion_ratio",
)  # fmt: skip
_OURS = "taskvec_"


@dataclass(frozen=True)
class Column:
    """A task, or a mean over tasks in which each counts once.

    Attributes:
        name: the task's, the category's, or `mean` for all tasks.
        kind: what the column holds.
        tasks: those it is over, which every row with a score here has.
        metric: the score, as `metric` or `metric,filter`; `several` in a mean over tasks that are
            compared by different ones.
        is_share: whether all scores lie between 0 and 1, the more the better; so do means.
        higher_is_better: which way the metric points.
    """

    name: str
    kind: Literal["task", "mean"]
    tasks: tuple[str, ...]
    metric: str
    is_share: bool = True
    higher_is_better: bool = True


def task_column(task: str, evaluations: Sequence[Evaluation], wanted: str | None) -> Column | None:
    """The column of a task, by one metric for all rows; None where it has not the wanted one.

    Of the metrics that all evaluations have, else of those that some have, it is the first in
    HEADLINES, without a filter before with one.
    """
    names = list(dict.fromkeys(name for each in evaluations for name in each.metrics))
    shared = [name for name in names if all(name in each.metrics for each in evaluations)]
    for candidates in (shared, names):
        found = _first(candidates, wanted)
        if found is not None:
            up = next(e.metrics[found].higher_is_better for e in evaluations if found in e.metrics)
            return Column(task, "task", (task,), found, up and _is_share(found, evaluations), up)
    return None


def mean_columns(
    tasks: Sequence[Column], categories: Mapping[str, Collection[str]], rows: Sequence[set[str]]
) -> tuple[list[Column], list[str]]:
    """The means over categories and over all tasks, and what is left out of them.

    Args:
        tasks: the columns of the tasks.
        categories: the tasks of each.
        rows: the tasks that each row has.

    A mean is over the tasks that every row has which has any of them; the mean over all tasks is
    over those that every row has. Only tasks scored between 0 and 1 enter.
    """
    scored = {column.name: column for column in tasks if column.is_share}
    columns, notes = [], []
    for name, members in {**categories, OVERALL: list(scored)}.items():
        own = [task for task in scored if task in members]
        holders = [row for row in rows if name == OVERALL or row & {*own}]
        common = tuple(task for task in own if all(task in row for row in holders))
        if len(own) < 2:
            continue
        if len(common) < len(own):
            notes.append(_left_out(name, own, common))
        if common:
            metrics = {scored[task].metric for task in common}
            metric = metrics.pop() if len(metrics) == 1 else SEVERAL
            columns.append(Column(_unused(name, scored), "mean", common, metric))
    unscored = [column.name for column in tasks if column.name not in scored]
    if unscored and columns:
        notes.append(f"In no mean, as not scored from 0 to 1: {listed(unscored)}.")
    return columns, notes


def categories_of(evaluations: Iterable[Evaluation]) -> dict[str, set[str]]:
    """The tasks of each category: the groups that lm-eval names, and this package's kinds of tasks.

    A group `taskvec_forward` is the kind `forward`.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for each in evaluations:
        for category in categories(each):
            found[category].add(each.task)
    order = {name: number for number, name in enumerate(CATEGORIES)}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def categories(evaluation: Evaluation) -> set[str]:
    """The categories of an evaluation's task."""
    groups = {group.removeprefix(_OURS) for group in evaluation.groups}
    return groups | {name for name in CATEGORIES if evaluation.task.startswith(f"{name}_")}


def _first(names: Sequence[str], wanted: str | None) -> str | None:
    for headline in (wanted,) if wanted else (*HEADLINES, None):
        for exact in (True, False):
            for name in names:
                if headline in (None, name) or (not exact and name.partition(",")[0] == headline):
                    return name
    return None


def _is_share(metric: str, evaluations: Sequence[Evaluation]) -> bool:
    """By its name, and by all its values: others may give the name to another scale."""
    if metric.partition(",")[0] not in SHARES:
        return False
    values = [each.metrics[metric].value for each in evaluations if metric in each.metrics]
    samples = (sample for each in evaluations for sample in each.samples or ())
    values += [sample.scores[metric] for sample in samples if metric in sample.scores]
    return all(0 <= value <= 1 for value in values)


def _left_out(name: str, own: Sequence[str], common: Sequence[str]) -> str:
    missing = [task for task in own if task not in common]
    what = "all tasks" if name == OVERALL else name
    if not common:
        return f"No mean over {what}: no task is in all rows."
    return (
        f"The mean over {what} is over the {len(common)} of {len(own)} tasks that all its rows "
        f"have, without {listed(missing)}."
    )


def _unused(name: str, tasks: Collection[str]) -> str:
    return name if name not in tasks else _unused(f"mean {name}", tasks)
