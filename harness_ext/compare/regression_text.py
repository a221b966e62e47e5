"""A comparison for people: what is said of it, and all of it as Markdown."""

from __future__ import annotations

import html
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from harness_ext.compare.evaluations import PromptOf, Sample
from harness_ext.compare.report import (
    BETTER,
    NONE,
    NOT_COMPARABLE,
    TOLERATED,
    WORSE,
    Comparison,
    Flip,
    Report,
)
from harness_ext.compare.statistics import Interval
from harness_ext.compare.tables import bullets_within, interval, markdown_within
from harness_ext.compare.text import clip, clip_start, listed, number, visible
from harness_ext.compare.text import count as count_of

NAME, PROMPT, ANSWER = 60, 300, 80
HEAD = ("task", "BASE", "NEW", "difference", "p (Holm)", "lost", "gained", "outcome")
_LISTED = 20
# What it means that a results file does not tell; of other facts it says nothing.
_ABSENT = {"limit": "none", "system instruction": "none"}
# Rows that a comment may leave out, the first ones first.
_LEFT_OUT = {
    NONE: "that show no difference", BETTER: "that are better",
    TOLERATED: "that are worse within tolerance", NOT_COMPARABLE: "that cannot be compared",
    WORSE: "that are worse",
}  # fmt: skip
# GitHub refuses comments of more than 65,536 characters.
COMMENT = 65_000
# For the sentence that tells how much is left out.
_ENDING = 200


def summary(report: Report) -> str:
    """The result in a sentence or two."""
    counts = [
        f"{count} {what}"
        for what in (WORSE, TOLERATED, BETTER, NOT_COMPARABLE)
        if (count := sum(each.outcome == what for each in report.comparisons))
    ]
    tasks = len(report.comparisons)
    found = ", ".join(counts) or "no difference shown"
    said = f"{count_of(tasks, 'comparison')}{f': {found}' if tasks else ''}."
    if report.incomparable:
        said += f" {report.incomparable[0].upper()}{report.incomparable[1:]}."
    limit = report.limits.max_changed
    if limit is None or report.changed is None:
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
    both = report.evaluations
    same = sum(base.path.resolve() == new.path.resolve() for base, new in both)
    if same:
        found.append(f"BASE and NEW are the same file in {same} of {len(both)} evaluations.")
    for side, names in (("BASE", report.pairing.only_base), ("NEW", report.pairing.only_new)):
        if names:
            found.append(f"Only in {side}, not compared: {listed(names, _LISTED)}.")
    metrics: dict[str, list[str]] = defaultdict(list)
    for each in report.compared:
        metrics[each.metric].append(each.pair.name)
    if metrics:
        parts = (
            name if len(metrics) == 1 else f"{name} ({listed(own)})"
            for name, own in metrics.items()
        )
        found.append(f"Compared by {', '.join(parts)}.")
    drops = [(each, drop) for each in report.compared if (drop := report.least_drop(each))]
    if drops:
        least, most = (f"{pick(drop for _, drop in drops):.2f}" for pick in (min, max))
        found.append(
            f"{report.needed} queries have to get worse and none better before a task of 0-or-1 "
            f"scores can be significant that is the only one to get worse: a drop of {least}"
            f"{f' to {most}, by the size of the task' if most != least else ''}."
        )
    small = [
        each.pair.name
        for each in report.compared
        if each.is_binary
        and report.least_drop(each) is None
        and each.adjusted >= report.limits.alpha
    ]
    if small:
        found.append(
            f"Of fewer than {report.needed} queries, too few for a drop to be significant where "
            f"no other task gets worse: {listed(small, _LISTED)}."
        )
    tests = sorted({each.test for each in report.compared})
    if tests:
        found.append(
            f"Tests: {'; '.join(tests)}. Answers are paired by document, p-values are Holm's for "
            f"{count_of(len(report.compared), 'comparison')}; significant below "
            f"{report.limits.alpha:g}. Intervals are at 95 %, for each task alone."
        )
    return [*found, *_task_notes(report)]


def _task_notes(report: Report) -> list[str]:
    """What is said of single tasks: last, for where there is no room for all of it."""
    found = []
    for each in report.comparisons:
        if each.why:
            found.append(f"{each.pair.name}: not comparable, {each.why}.")
        if any(each.unmatched):
            ours, theirs = each.unmatched
            found.append(
                f"{each.pair.name}: {ours} documents are in BASE only and {theirs} in NEW only; "
                f"{each.documents} are compared."
            )
        if each.unscored and each.documents:
            found.append(
                f"{each.pair.name}: {each.unscored} documents of both sides are left out, as they "
                f"have no {each.metric} on one."
            )
    return found


def _facts(report: Report) -> list[str]:
    """Versions, weights and the like in which two evaluations that are compared differ."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for base, new in report.evaluations:
        facts = [
            {**_ABSENT, f"version of {each.task}": each.version, **each.facts}
            for each in (base, new)
        ]
        for name in dict.fromkeys((*facts[0], *facts[1])):
            values = [own.get(name) for own in facts]
            if None not in values and values[0] != values[1]:
                for own, value in zip(found.setdefault(name, (set(), set())), values, strict=True):
                    own.add(clip(str(value), NAME))
    return [
        f"{name} differs: {listed(sorted(base))} (BASE), {listed(sorted(new))} (NEW)."
        for name, (base, new) in found.items()
    ]


def as_markdown(
    report: Report, most: int | None, prompt_of: PromptOf, limit: float = math.inf
) -> str:
    """For a pull request: the summary first, the table, notes, and the flips to be unfolded.

    Of what makes it longer than `limit` characters the lists of flips are left out first, then rows
    of the table and notes, regressions last; what is left out is counted.
    """
    mark = "❌" if report.regressed else "⚠️" if report.incomparable else "✅"
    first = f"**taskvec compare** {mark} {summary(report)}\n"
    # A quarter at least is for lists of answers.
    told = bullets_within(limit / 4, [_plain(note, 2000) for note in notes(report)])
    rows = [[_plain(cell) for cell in cells(each)] for each in report.comparisons]
    outcomes = [each.outcome for each in report.comparisons]
    table = markdown_within(limit / 2, HEAD, rows, outcomes, _LEFT_OUT)
    blocks = [first, table, told]
    length = sum(len(block) + 1 for block in blocks)
    left_out = 0
    for title, each, flips in listed_flips(report, most):
        if left_out:
            left_out += 1
            continue
        text = "\n\n".join("\n".join(lines(flip, each, prompt_of)) for flip in flips)
        block = (
            f"<details><summary>{_unmentioned(html.escape(title))}</summary>\n\n"
            f"<pre>{html.escape(text)}</pre>\n\n</details>\n"
        )
        length += len(block) + 1
        if length > limit - _ENDING:
            left_out += 1
        else:
            blocks.append(block)
    if left_out:
        blocks.append(
            f"{count_of(left_out, 'more list')} of answers would not fit into a comment; "
            "`--all-flips` and `--json` have all.\n"
        )
    return "\n".join(blocks)


def cells(each: Comparison) -> tuple[str, ...]:
    """A row of the table, under HEAD."""
    if each.outcome == NOT_COMPARABLE:
        return (shown(each.pair.name), *["–"] * 6, each.outcome)
    return (
        shown(each.pair.name),
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


def listed_flips(
    report: Report, most: int | None
) -> Iterable[tuple[str, Comparison, Sequence[Flip]]]:
    """Lost and gained answers, worse tasks first, with what each list is called; None for all."""
    for each in sorted(report.compared, key=lambda each: each.outcome != WORSE):
        for what, flips in (("lost", each.lost), ("gained", each.gained)):
            picked = flips[:most]
            if picked:
                count = f"{len(picked)} of {len(flips)}"
                yield f"{shown(each.pair.name)}: {what} by NEW ({count})", each, picked


def lines(flip: Flip, each: Comparison, prompt_of: PromptOf) -> list[str]:
    """One flip: prompt, target and both answers."""
    prompt = flip.new.prompt or flip.base.prompt or prompt_of(flip.evaluation, flip.new)
    asked = f"  query   {clip(shown(flip.new.query, PROMPT), PROMPT)} (its prompt is not known)"
    if prompt is not None:
        asked = f"  prompt  {_prompt(prompt)}"
    scores = ""
    if {flip.base.scores[each.metric], flip.new.scores[each.metric]} - {0.0, 1.0}:
        scores = f" ({flip.base.scores[each.metric]:g} → {flip.new.scores[each.metric]:g})"
    return [
        asked,
        f"  target  {shown(flip.new.target, ANSWER)}",
        f"  BASE    {_answer(flip.base, each)}",
        f"  NEW     {_answer(flip.new, each)}{scores}",
        "",
    ]


def _answer(sample: Sample, each: Comparison) -> str:
    answer = sample.answered(each.metric)
    return "–" if answer is None else shown(answer, ANSWER)


def _prompt(prompt: str) -> str:
    return clip_start(visible(prompt).replace("\n", "⏎ "), PROMPT)


def shown(text: str, limit: int = NAME) -> str:
    """Text in one line, with its middle left out where it is long."""
    return clip(visible(text).replace("\n", "⏎ "), limit)


def _plain(text: str, limit: int = NAME * 3) -> str:
    """Text in a Markdown table or list, where nothing in it is markup."""
    escaped = html.escape(shown(text, limit), quote=False)
    marked = "".join(f"\\{sign}" if sign in "\\`*_[]~#" else sign for sign in escaped)
    return _unmentioned(marked)


def _unmentioned(text: str) -> str:
    """`@name` calls nobody where a sign that is not seen parts it."""
    return text.replace("@", "@\u2060")
