"""Whether findings on attention heads are those of Yang et al. 2026 (arXiv 2509.24164).

Each claim is compared with the numbers as they stand, without a test: which way they point.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from harness_ext.analysis.head_overlap import Agreement, agreement, mean_agreement
from harness_ext.commands.heads_measure import INDUCTION_SHARE, NEAR_TOP, TaskFindings


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and whether it shows: `yes`, `in part` or `no`; the figures say why."""

    text: str
    shows: str
    figures: str


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


def claims(
    found: Sequence[TaskFindings], across: Mapping[str, Mapping[tuple[str, str], Agreement]]
) -> list[Claim]:
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
    tr, tl = (statistics.fmean(f.mean_layers[k] for f in found) for k in ("tr", "tl"))
    return Claim(
        "task-recognition heads sit deeper than task-learning heads",
        _verdict(f.mean_layers["tr"] > f.mean_layers["tl"] for f in found),
        f"mean layer {tr:.1f} against {tl:.1f}",
    )


def _induction(found: Sequence[TaskFindings]) -> Claim:
    medians = {k: statistics.fmean(f.induction_ranks[k].median for f in found) for k in NEAR_TOP}
    within = {k: statistics.fmean(f.induction_ranks[k].within for f in found) for k in NEAR_TOP}
    parts = [
        f"{100 * within[kind]:.0f} % of them lie in the top {100 * limit:.0f} % by "
        f"{kind.upper()} (by chance {100 * limit:.0f} %), the median head at "
        f"{100 * medians[kind]:.0f} %"
        for kind, limit in NEAR_TOP.items()
    ]
    return Claim(
        f"the top {100 * INDUCTION_SHARE:.0f} % of induction heads are in the top 20 % by TR and "
        "in the top 50 % by TL",
        _verdict(
            f.induction_ranks[kind].median <= limit
            for f in found
            for kind, limit in NEAR_TOP.items()
        ),
        "; ".join(parts),
    )


def _attention(found: Sequence[TaskFindings]) -> Claim:
    labels = {
        k: statistics.fmean(f.attention[k].labels for f in found) for k in ("tr", "tl", "all")
    }
    query = {k: statistics.fmean(f.attention[k].query for f in found) for k in ("tr", "tl", "all")}
    return Claim(
        "task-recognition heads look at the labels shown, task-learning heads at the query",
        _verdict(
            holds
            for f in found
            for holds in (
                f.attention["tr"].labels > max(f.attention[k].labels for k in ("tl", "all")),
                f.attention["tl"].query > max(f.attention[k].query for k in ("tr", "all")),
            )
        ),
        f"on labels TR {labels['tr']:.2f}, TL {labels['tl']:.2f}, all heads {labels['all']:.2f}; "
        f"on the query TR {query['tr']:.2f}, TL {query['tl']:.2f}, all heads {query['all']:.2f}",
    )


def _explained(found: Sequence[TaskFindings]) -> Claim:
    kinds = ("tr", "tl", "ih", "random")
    cosines = {
        k: statistics.fmean(f.explained[k].cosine[f.layer] or 0 for f in found) for k in kinds
    }
    return Claim(
        "a task vector is largely made of what task-recognition heads write",
        _verdict(
            value > other
            for f in found
            for value in [f.explained["tr"].cosine[f.layer] or 0]
            for other in (0.5, *(f.explained[k].cosine[f.layer] or 0 for k in kinds[1:]))
        ),
        "cosine after the deepest TR head: "
        + ", ".join(f"{_name(kind)} {value:.2f}" for kind, value in cosines.items()),
    )


def _geometry(found: Sequence[TaskFindings]) -> Claim:
    kinds = ("zero_shot", "tr", "tl")
    cosine = {k: statistics.fmean(f.geometry[k].cosine for f in found) for k in kinds}
    lead = {k: statistics.fmean(f.geometry[k].lead for f in found) for k in kinds}
    return Claim(
        "adding TR heads turns a state towards the labels, adding TL heads raises the right one",
        _verdict(
            holds
            for f in found
            for plain in [f.geometry["zero_shot"]]
            for holds in (
                f.geometry["tr"].cosine > max(plain.cosine, f.geometry["tl"].cosine),
                f.geometry["tl"].lead > plain.lead,
            )
        ),
        f"cosine to the labels' span: zero-shot {cosine['zero_shot']:.3f}, + TR "
        f"{cosine['tr']:.3f}, + TL {cosine['tl']:.3f}; lead of the right label: "
        f"{lead['zero_shot']:.2f}, {lead['tr']:.2f}, {lead['tl']:.2f}",
    )


def _attribution(found: Sequence[TaskFindings]) -> Claim:
    means = {
        kind: mean_agreement([f.agreements[kind, "label_logit"] for f in found])
        for kind in ("tr", "tl")
    }
    return Claim(
        "the heads with the largest logit of the right label (direct logit attribution), which "
        "should have learnt the task, are those that recognise it",
        _verdict(
            f.agreements["tr", "label_logit"].jaccard
            > max(
                f.agreements["tr", "label_logit"].by_chance,
                f.agreements["tl", "label_logit"].jaccard,
            )
            for f in found
        ),
        "heads with the largest logit of the right label: "
        + "; ".join(
            f"with {_name(kind)} Jaccard {own.jaccard:.2f} (by chance {own.by_chance:.2f}), "
            f"Spearman {_number(own.spearman)}"
            for kind, own in means.items()
        ),
    )


def _shared(across: Mapping[str, Mapping[tuple[str, str], Agreement]]) -> Claim:
    tr, tl = (mean_agreement(list(across[kind].values())) for kind in ("tr", "tl"))
    measures = ("jaccard", "kendall", "spearman")
    return Claim(
        "tasks share task-recognition heads, and have task-learning heads of their own",
        _verdict((getattr(tr, name) or 0) > (getattr(tl, name) or 0) for name in measures),
        "between tasks: "
        + "; ".join(
            f"{name.capitalize()} TR {_number(getattr(tr, name))}, TL {_number(getattr(tl, name))}"
            for name in measures
        ),
    )


def _verdict(holds: Iterable[bool]) -> str:
    found = list(holds)
    return "yes" if all(found) else "in part" if any(found) else "no"


def _name(kind: str) -> str:
    return kind if kind == "random" else kind.upper()


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
