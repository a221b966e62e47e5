"""Whether findings on attention heads are those of Yang et al. 2026 (arXiv 2509.24164).

Each claim is one or several differences that lie above 0 where it holds. A task is the unit: the
heads of a model are all that it has, and depend on each other, and the prompts of a task are what
its heads are chosen on; what is open is whether another task would show the same. So a difference
has one value per task and is tested by Student's t over the tasks, from three on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from harness_ext.analysis.head_overlap import Agreement, agreement, mean_agreement
from harness_ext.commands.heads_measure import INDUCTION_SHARE, NEAR_TOP, TaskFindings
from harness_ext.compare.gap import NOT_SHOWN, OTHER_WAY, SHOWS, verdict
from harness_ext.compare.statistics import Interval, task_mean_interval
from harness_ext.compare.tables import interval
from harness_ext.compare.text import number

NOT_TESTED = "not tested"
FEWEST = 3
"""Tasks that a test takes: the spread of two says next to nothing."""

Across = Mapping[str, Mapping[tuple[str, str], Agreement]]


@dataclass(frozen=True)
class Difference:
    """A mean over tasks, with its 95 % interval; None where there is none.

    says: what is subtracted from what.
    """

    says: str
    estimate: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and whether it shows, with the figures it is about.

    shows: `shows` where every difference is above 0, `the other way` where one is below, else `does
    not show`; `not tested` with too few tasks.
    """

    text: str
    shows: str
    figures: str
    differences: tuple[Difference, ...]


def across_tasks(
    found: Sequence[TaskFindings], fraction: float
) -> dict[str, dict[tuple[str, str], Agreement]]:
    """How alike the `tr`, and the `tl`, scores of every two tasks are."""
    return {
        kind: {
            (one.task, other.task): agreement(one.scores[kind], other.scores[kind], fraction)
            for one, other in combinations(found, 2)
        }
        for kind in ("tr", "tl")
    }


def claims(found: Sequence[TaskFindings], across: Across) -> list[Claim]:
    """The claims that the findings on these tasks can be held against; means are over tasks."""
    shown = [
        _depth(found),
        _induction(found),
        _attention(found),
        _explained(found),
        _geometry(found),
        _attribution(found),
    ]
    if len(found) > 1:
        shown.append(_shared(across))
    return shown


def _depth(found: Sequence[TaskFindings]) -> Claim:
    tr, tl = (fmean(f.mean_layers[k] for f in found) for k in ("tr", "tl"))
    return _claim(
        "task-recognition heads sit deeper than task-learning heads",
        f"mean layer {tr:.1f} against {tl:.1f}",
        {"TR − TL": [f.mean_layers["tr"] - f.mean_layers["tl"] for f in found]},
    )


def _induction(found: Sequence[TaskFindings]) -> Claim:
    within = {kind: [f.induction_ranks[kind].within for f in found] for kind in NEAR_TOP}
    parts = [
        f"{100 * fmean(within[kind]):.0f} % of them lie in the top {100 * limit:.0f} % by "
        f"{kind.upper()} (by chance {100 * limit:.0f} %)"
        for kind, limit in NEAR_TOP.items()
    ]
    return _claim(
        f"most of the top {100 * INDUCTION_SHARE:.0f} % of induction heads are in the top 20 % by "
        "TR, and most in the top 50 % by TL",
        "; ".join(parts),
        {
            f"share by {kind.upper()} − 0.5": [share - 0.5 for share in own]
            for kind, own in within.items()
        },
    )


def _attention(found: Sequence[TaskFindings]) -> Claim:
    kinds = ("tr", "tl", "all")
    labels = {k: [f.attention[k].labels for f in found] for k in kinds}
    query = {k: [f.attention[k].query for f in found] for k in kinds}
    means = (
        f"{where} " + ", ".join(f"{_name(kind)} {fmean(own[kind]):.2f}" for kind in kinds)
        for where, own in (("on labels", labels), ("on the query", query))
    )
    return _claim(
        "task-recognition heads look at the labels shown, task-learning heads at the query",
        "; ".join(means),
        {
            "on labels TR − TL": _less(labels["tr"], labels["tl"]),
            "on labels TR − all heads": _less(labels["tr"], labels["all"]),
            "on the query TL − TR": _less(query["tl"], query["tr"]),
            "on the query TL − all heads": _less(query["tl"], query["all"]),
        },
    )


def _explained(found: Sequence[TaskFindings]) -> Claim:
    kinds = ("tr", "tl", "ih", "random")
    cosines = {k: [f.explained[k].cosine[f.layer] or 0.0 for f in found] for k in kinds}
    return _claim(
        "a task vector is largely made of what task-recognition heads write",
        "cosine after the deepest TR head: "
        + ", ".join(f"{_name(kind)} {fmean(own):.2f}" for kind, own in cosines.items()),
        {
            "TR − 0.5": [value - 0.5 for value in cosines["tr"]],
            **{f"TR − {_name(kind)}": _less(cosines["tr"], cosines[kind]) for kind in kinds[1:]},
        },
    )


def _geometry(found: Sequence[TaskFindings]) -> Claim:
    kinds = ("zero_shot", "tr", "tl")
    cosine = {k: [f.geometry[k].cosine for f in found] for k in kinds}
    lead = {k: [f.geometry[k].lead for f in found] for k in kinds}
    return _claim(
        "adding TR heads turns a state towards the labels, adding TL heads raises the right one",
        f"cosine to the labels' span: zero-shot {fmean(cosine['zero_shot']):.3f}, + TR "
        f"{fmean(cosine['tr']):.3f}, + TL {fmean(cosine['tl']):.3f}; lead of the right label: "
        f"{fmean(lead['zero_shot']):.2f}, {fmean(lead['tr']):.2f}, {fmean(lead['tl']):.2f}",
        {
            "cosine + TR − zero-shot": _less(cosine["tr"], cosine["zero_shot"]),
            "cosine + TR − + TL": _less(cosine["tr"], cosine["tl"]),
            "lead + TL − zero-shot": _less(lead["tl"], lead["zero_shot"]),
        },
        digits=3,
    )


def _attribution(found: Sequence[TaskFindings]) -> Claim:
    own = {kind: [f.agreements[kind, "label_logit"] for f in found] for kind in ("tr", "tl")}
    means = {kind: mean_agreement(each) for kind, each in own.items()}
    return _claim(
        "the heads with the largest logit of the right label (direct logit attribution), which "
        "should have learnt the task, are those that recognise it",
        "heads with the largest logit of the right label: "
        + "; ".join(
            f"with {_name(kind)} Jaccard {each.jaccard:.2f} (by chance {each.by_chance:.2f}), "
            f"Spearman {_number(each.spearman)}"
            for kind, each in means.items()
        ),
        {
            "Jaccard with TR − by chance": [each.jaccard - each.by_chance for each in own["tr"]],
            "Jaccard with TR − with TL": _less(*([a.jaccard for a in own[kind]] for kind in own)),
        },
    )


def _shared(across: Across) -> Claim:
    tr, tl = (mean_agreement(list(across[kind].values())) for kind in ("tr", "tl"))
    measures = ("jaccard", "kendall", "spearman")
    return _claim(
        "tasks share task-recognition heads, and have task-learning heads of their own",
        "between tasks: "
        + "; ".join(
            f"{name.capitalize()} TR {_number(getattr(tr, name))}, TL {_number(getattr(tl, name))}"
            for name in measures
        ),
        {
            f"{name.capitalize()} TR − TL": _by_task(
                {
                    pair: (getattr(own, name) or 0.0) - (getattr(across["tl"][pair], name) or 0.0)
                    for pair, own in across["tr"].items()
                }
            )
            for name in measures
        },
    )


def _by_task(pairs: Mapping[tuple[str, str], float]) -> list[float]:
    """A value for each task whose mean is that of all pairs and whose spread is that mean's.

    They are the jackknife's pseudo-values, for pairs that share a task depend on each other
    (Arvesen, Annals of Mathematical Statistics 40 (1969) 2076); with few tasks the spread is rather
    too wide. Of two tasks, one pair: its value.
    """
    tasks = list(dict.fromkeys(task for pair in pairs for task in pair))
    mean, n = fmean(pairs.values()), len(tasks)
    if n < FEWEST:
        return [mean]
    without = [fmean(value for pair, value in pairs.items() if task not in pair) for task in tasks]
    return [n * mean - (n - 1) * rest for rest in without]


def _claim(
    text: str, figures: str, differences: Mapping[str, Sequence[float]], digits: int = 2
) -> Claim:
    """differences: by what they say, a value for each task."""
    found = {says: _over_tasks(values) for says, values in differences.items()}
    said = ", ".join(f"{says} = {_written(own, digits)}" for says, own in found.items())
    return Claim(
        text,
        _verdict(list(found.values())),
        f"{figures}; {said}",
        tuple(
            Difference(
                says, own.estimate, *(end if own.is_known else None for end in (own.low, own.high))
            )
            for says, own in found.items()
        ),
    )


def _over_tasks(values: Sequence[float]) -> Interval:
    """The mean, with Student's interval where the values have a spread to judge by."""
    if len(values) < FEWEST or len(set(values)) == 1:
        return Interval(fmean(values), math.nan, math.nan)
    return task_mean_interval([[(value, 1) for value in values]], extremes=None)


def _verdict(found: Sequence[Interval]) -> str:
    if not all(own.is_known for own in found):
        return NOT_TESTED
    verdicts = {verdict(own) for own in found}
    if verdicts == {SHOWS}:
        return SHOWS
    return OTHER_WAY if OTHER_WAY in verdicts else NOT_SHOWN


def _less(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [value - other for value, other in zip(values, others, strict=True)]


def _written(own: Interval, digits: int) -> str:
    if own.is_known:
        return interval(own, signed=True, digits=digits)
    return ("+" if round(own.estimate, digits) > 0 else "") + number(own.estimate, digits)


def _name(kind: str) -> str:
    return {"random": "random", "all": "all heads"}.get(kind, kind.upper())


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
