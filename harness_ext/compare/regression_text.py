"""A comparison for people: what is said of it, as a table in a terminal and as Markdown."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness_ext.compare.evaluations import Evaluation, Sample
from harness_ext.compare.regression import (
    BETTER,
    NOT_COMPARABLE,
    TOLERATED,
    WORSE,
    Comparison,
    Flip,
    Report,
)
from harness_ext.compare.statistics import Interval
from harness_ext.compare.tables import interval, markdown
from harness_ext.compare.text import clip, clip_start, number, visible
from harness_ext.compare.text import count as count_of

PromptOf = Callable[[Evaluation, Sample], "str | None"]
NAME, PROMPT, ANSWER = 60, 300, 80
_STYLES = {WORSE: "bold red", TOLERATED: "yellow", BETTER: "green", NOT_COMPARABLE: "magenta"}
_HEAD = ("task", "BASE", "NEW", "difference", "p (Holm)", "lost", "gained", "outcome")
_LISTED = 20


def summary(report: Report) -> str:
    """The result in a sentence or two."""
    counts = [
        f"{count} {what}"
        for what in (WORSE, TOLERATED, BETTER, NOT_COMPARABLE)
        if (count := sum(each.outcome == what for each in report.comparisons))
    ]
    tasks = len(report.comparisons)
    said = f"{count_of(tasks, 'comparison')}: {', '.join(counts) or 'no difference shown'}."
    limit = report.limits.max_changed
    if limit is None:
        return said
    verb = "more than" if report.too_many_changed else "not more than"
    share = f"{report.changed:.1%} of the answers are other texts, {verb} the {limit:.1%} allowed."
    return f"{said} {share}"


def notes(report: Report) -> list[str]:
    """What has to be known beside the table."""
    found = []
    for name, (base, new) in report.pairing.varied.items():
        found.append(f"{name}: {base or 'as usual'} (BASE), {new or 'as usual'} (NEW).")
    found += _facts(report)
    for side, names in (("BASE", report.pairing.only_base), ("NEW", report.pairing.only_new)):
        if names:
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            found.append(f"Only in {side}, not compared: {', '.join(names[:_LISTED])}{more}.")
    for each in report.comparisons:
        if each.why:
            found.append(f"{each.pair.name}: not comparable, {each.why}.")
        if any(each.unmatched):
            ours, theirs = each.unmatched
            found.append(
                f"{each.pair.name}: {ours} documents are in BASE only and {theirs} in NEW only; "
                f"{each.documents} are compared."
            )
    small = [each.pair.name for each in report.compared if each.clusters < report.needed]
    if small:
        found.append(
            f"With so many tasks compared, {report.needed} queries have to get worse and none "
            f"better before a task can be significant; too small for that: {', '.join(small)}."
        )
    tests = sorted({each.test for each in report.compared})
    if tests:
        found.append(
            f"Test: {' or '.join(tests)}, paired by document, with Holm's correction for "
            f"{len(report.compared)} comparisons; significant below {report.limits.alpha:g}. "
            "Intervals are at 95 %, for each task alone."
        )
    return found


def _facts(report: Report) -> list[str]:
    """Versions, weights and the like in which the sides differ."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for each in report.comparisons:
        for both in each.pair.evaluations:
            for index, evaluation in enumerate(both):
                for name, value in evaluation.facts.items():
                    found.setdefault(name, (set(), set()))[index].add(clip(str(value), NAME))
    return [
        f"{name} differs: {', '.join(sorted(base))} (BASE), {', '.join(sorted(new))} (NEW)."
        for name, (base, new) in found.items()
        if base and new and base != new
    ]


def show(console: Console, report: Report, most: int, prompt_of: PromptOf) -> None:
    """Print summary, table, notes, and at most so many lost and gained answers of a task."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in _HEAD:
        table.add_column(name, overflow="fold")
    for each in report.comparisons:
        task, *cells, outcome = _cells(each)
        cells = [cell.replace(" [", "\n[") for cell in cells]
        table.add_row(Text(task), *cells, Text(outcome, style=_STYLES.get(outcome, "")))
    console.print(Text(summary(report), style="bold red" if report.regressed else "bold"))
    console.print(table)
    for note in notes(report):
        console.print(Text(f"- {_shown(note, 2000)}"))
    for title, each, flips in _listed(report, most):
        console.print(Text(f"\n{title}", style="bold"))
        for flip in flips:
            for line in _lines(flip, each, prompt_of):
                console.print(Text(line))


def as_markdown(report: Report, most: int, prompt_of: PromptOf) -> str:
    """For a pull request: the summary first, the table, notes, and the flips to be unfolded."""
    mark = "❌" if report.regressed else "✅"
    blocks = [
        f"**taskvec compare** {mark} {summary(report)}\n",
        markdown(_HEAD, [[_plain(cell) for cell in _cells(each)] for each in report.comparisons]),
        "".join(f"- {_plain(note, 2000)}\n" for note in notes(report)),
    ]
    for title, each, flips in _listed(report, most):
        lines = "\n\n".join("\n".join(_lines(flip, each, prompt_of)) for flip in flips)
        blocks.append(
            f"<details><summary>{html.escape(title)}</summary>\n\n"
            f"<pre>{html.escape(lines)}</pre>\n\n</details>\n"
        )
    return "\n".join(blocks)


def _cells(each: Comparison) -> tuple[str, ...]:
    if each.outcome == NOT_COMPARABLE:
        return (_shown(each.pair.name), *["–"] * 6, each.outcome)
    return (
        _shown(each.pair.name),
        number(each.base),
        number(each.new),
        _interval(each.difference),
        _p_value(each.adjusted),
        str(len(each.lost)),
        str(len(each.gained)),
        each.outcome,
    )


def _interval(found: Interval) -> str:
    if math.isnan(found.low):
        return f"{number(found.estimate, signed=True)} (one cluster)"
    return interval(found, signed=True)


def _p_value(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _listed(report: Report, most: int) -> Iterable[tuple[str, Comparison, Sequence[Flip]]]:
    """Lost and gained answers, task by task, with what each list is called."""
    for each in report.compared:
        for what, flips in (("lost", each.lost), ("gained", each.gained)):
            if flips and most:
                count = f"{min(most, len(flips))} of {len(flips)}"
                yield f"{_shown(each.pair.name)}: {what} by NEW ({count})", each, flips[:most]


def _lines(flip: Flip, each: Comparison, prompt_of: PromptOf) -> list[str]:
    prompt = flip.new.prompt or flip.base.prompt or prompt_of(flip.evaluation, flip.new)
    asked = f"  query   {clip(_shown(flip.new.query, PROMPT), PROMPT)} (its prompt is not known)"
    if prompt is not None:
        asked = f"  prompt  {_prompt(prompt)}"
    scores = ""
    if {flip.base.scores[each.metric], flip.new.scores[each.metric]} - {0.0, 1.0}:
        scores = f" ({flip.base.scores[each.metric]:g} → {flip.new.scores[each.metric]:g})"
    return [
        asked,
        f"  target  {_shown(flip.new.target, ANSWER)}",
        f"  BASE    {_shown(flip.base.answer, ANSWER)}",
        f"  NEW     {_shown(flip.new.answer, ANSWER)}{scores}",
        "",
    ]


def _prompt(prompt: str) -> str:
    return clip_start(visible(prompt).replace("\n", "⏎ "), PROMPT)


def _shown(text: str, limit: int = NAME) -> str:
    return clip(visible(text).replace("\n", "⏎ "), limit)


def _plain(text: str, limit: int = NAME * 3) -> str:
    """Text in a Markdown table or list, where nothing in it is markup."""
    escaped = html.escape(_shown(text, limit), quote=False)
    return "".join(f"\\{sign}" if sign in "\\`*_[]~#" else sign for sign in escaped)
