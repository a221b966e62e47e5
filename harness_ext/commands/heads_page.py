"""How `taskvec heads` prints its findings for people, within 80 columns where there are no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple

from rich.console import Console
from rich.table import Table

from harness_ext.analysis.head_overlap import Agreement, mean_agreement
from harness_ext.commands.heads_claims import FEWEST
from harness_ext.commands.heads_measure import KINDS, TaskFindings
from harness_ext.commands.heads_report import Report
from harness_ext.heads.select import Head

SHOWN = 5
"""Top heads of a kind that are printed; the file has them all."""

_NAMES = {
    "tr": "TR",
    "tl": "TL",
    "ih": "IH",
    "label_logit": "logit of the label",
    "mean_logit": "mean logit",
    "random": "random",
    "all": "all heads",
}


def show(console: Console, report: Report) -> None:
    """Print every task's tables, those over tasks, and the claims."""
    console.print(
        "TR task-recognition heads, TL task-learning heads, IH induction heads, as\n"
        "layer.head; attention weight at the last cue; cosine of the heads' sum with the\n"
        "task vector after the deepest TR head\n"
    )
    for found in report.tasks:
        console.print(f"{found.task}, {found.prompts} prompts", soft_wrap=True)
        console.print(_kinds(found), "", _agreements(_of_task(found)), "", sep="\n")
    if len(report.tasks) > 1:
        pairs = len(report.across["tr"])
        console.print(f"between tasks{f', mean of {pairs} pairs' if pairs > 1 else ''}")
        console.print(_agreements(_of_tasks(report)), "", sep="\n")
    console.print("claims of Yang et al. (2026); differences are means over tasks, with 95 %")
    console.print(f"intervals (Student's t over tasks) from {FEWEST} tasks on")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for claim in report.claims:
        table.add_row(f"  {claim.shows}:", f"{claim.text} ({claim.figures})")
    console.print(table)


def _kinds(found: TaskFindings) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("top heads", overflow="fold")
    for name in (
        "mean\nlayer",
        "on\nlabels",
        "on the\nquery",
        "first\ntoken",
        "else-\nwhere",
        "explains\n(cosine)",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for kind in (*KINDS, "random", "all"):
        heads, mass = found.top.get(kind), found.attention.get(kind)
        looks = astuple(mass) if mass else [None] * 4
        own = found.explained.get(kind)
        table.add_row(
            _NAMES[kind],
            _heads(heads) if heads else "",
            f"{found.mean_layers[kind]:.1f}" if kind in found.mean_layers else "",
            *map(_number, looks),
            _number(own.cosine[found.layer]) if own else "",
        )
    return table


def _heads(heads: Sequence[Head]) -> str:
    more = f" +{len(heads) - SHOWN}" if len(heads) > SHOWN else ""
    return " ".join(f"{layer}.{head}" for layer, head in heads[:SHOWN]) + more


def _of_task(found: TaskFindings) -> Iterator[tuple[str, Agreement]]:
    for (one, other), own in found.agreements.items():
        yield f"{_NAMES[one]} and {_NAMES[other]}", own


def _of_tasks(report: Report) -> Iterator[tuple[str, Agreement]]:
    for kind, pairs in report.across.items():
        yield f"{_NAMES[kind]} of two tasks", mean_agreement(list(pairs.values()))


def _agreements(rows: Iterator[tuple[str, Agreement]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for name in ("Jaccard", "(by chance)", "Kendall", "Spearman"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, own in rows:
        table.add_row(
            name,
            f"{own.jaccard:.2f}",
            f"({own.by_chance:.2f})",
            _number(own.kendall),
            _number(own.spearman),
        )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
