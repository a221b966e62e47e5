"""Markdown tables of recorded head vectors and ablations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean

from harness_ext.compare.heads_claims import count, sentences
from harness_ext.compare.heads_rows import read_models
from harness_ext.compare.heads_runs import (
    ABLATED,
    ADDED,
    FRACTION,
    GENERATION,
    ICL,
    KINDS,
    NAMES,
    RATIO,
    SETS,
    SHOTS,
    ZERO_SHOT,
    Arm,
    Curve,
    HeadRuns,
    Row,
    curves,
    mean_share,
    score_of,
)
from harness_ext.compare.statistics import Interval
from harness_ext.compare.tables import MISSING, NO_TASK, NOTHING, interval, markdown
from harness_ext.compare.text import number

PICTURE = "fraction.svg"
LEGEND = f"""\
Accuracy is the share of answers that are right (`answer_match`); the TR ratio is the share that is
in the task's label set, right or wrong (`tr_ratio`). In open generation the score is the share of
continuations in the tone asked for (`tone_match`). Steered prompts have no demonstrations: the mean
outputs of the top {100 * FRACTION:.0f} % of the heads, by TR score, by TL score or as induction \
heads (IH), or of
random heads in the layers of the TR heads, are summed and added at the cue, at a layer and strength
chosen on development episodes. In ablations the heads are zeroed throughout a prompt with
demonstrations. One and the same label for all documents is right on half of them in the sets with
two labels (sentiment, subjectivity) and on a quarter in those with four, with a TR ratio of 1.

A seed draws demonstrations, episodes and random heads; all seeds test the same documents, and the
plain zero-shot prompt, which draws nothing, is run once. A query's scores are averaged over the
seeds, and the 95 % intervals are over queries, for these seeds: their spread is in
results/README.md. All documents with one query count as one cluster. Intervals are Wilson's at the
effective sample size for a task, and Student's t with two extreme clusters more for means over
tasks and for differences, which are paired by query. They hold for these tasks.

A claim "shows" where the interval of the given sum lies above 0, shows "the other way" where it
lies below, and "does not show" where it holds 0: the difference may then be there, and be too small
for so few documents. Behind it stands in how many seeds the sum has the sign that it has in all,
and at the end each seed's own: what one seed makes is seen there. Nothing is corrected for the
number of claims.
"""
CHOICES_LEGEND = """\
Where heads were added, from the lowest to the highest over seeds: the layer and strength chosen on
development episodes, the accuracy on these, and the accuracy on the tested documents.
"""
ADDED_ARMS = (ZERO_SHOT, ICL, *ADDED.values())

Cells = Mapping[str, Mapping[Arm, frozenset[int]]]
"""The seeds that each cell of a table is over, by task and arm; none where it is missing."""


def section(folder: Path, link: str = "") -> str:
    """Steering, ablations, the curve and the claims of all models in the folder, as Markdown.

    link: the folder as the page that the Markdown is for links to it.

    Raises :class:`UsageError` naming the first recorded row that cannot be used.
    """
    models = read_models(folder)
    if not models:
        return NOTHING
    pictured = any(curve.seeds for runs in models for curve in curves(runs))
    picture = f"![Accuracy by the share of heads that are added]({link}{PICTURE})\n"
    parts = [LEGEND, *([picture] if pictured else []), *map(_model_part, models)]
    return "\n".join(parts)


def choices_section(folder: Path) -> str:
    """Chosen layers and strengths of all models in the folder; raises as `section` does."""
    models = read_models(folder)
    return "\n".join([CHOICES_LEGEND, *map(_choices_part, models)]) if models else NOTHING


def _model_part(runs: HeadRuns) -> str:
    blocks = [f"### {runs.model}\n", _facts(runs), "Heads added to a zero-shot prompt:\n"]
    blocks += [steering_table(runs), *_recovered(runs)]
    ablated = ablation_table(runs)
    if ablated:
        blocks += [f"Heads knocked out of a prompt with {SHOTS} demonstrations:\n", ablated]
    blocks += [fraction_table(curve) for curve in curves(runs)]
    return "\n".join([*blocks, "What this says of the paper's claims:\n", sentences(runs)])


def steering_table(runs: HeadRuns) -> str:
    """Accuracy and TR ratio of each task with no heads and with each kind of heads added."""
    cells = {task: {arm: runs.seeds(task, arm) for arm in ADDED_ARMS} for task in runs.tasks}
    return _table(runs, {task: own for task, own in cells.items() if any(own.values())}, NAMES)


def ablation_table(runs: HeadRuns) -> str:
    """Accuracy and TR ratio of each task with each kind of heads knocked out; empty where none is.

    The intact prompt is taken over the seeds that some kind was knocked out for.
    """
    cells = {}
    for task in runs.tasks:
        own = {arm: runs.seeds(task, arm) for arm in ABLATED.values()}
        seeds = frozenset[int]().union(*own.values())
        if seeds:
            cells[task] = {ICL: seeds & runs.seeds(task, ICL), **own}
    return _table(runs, cells, {**NAMES, ICL: "intact"}) if cells else ""


def fraction_table(curve: Curve) -> str:
    """The points of a curve."""
    if not curve.seeds:
        return (
            f"**Left out:** {curve.task} by the share of heads: no seed is recorded at all of "
            "them.\n"
        )
    heads = {share: number for own in curve.points.values() for share, (number, _) in own.items()}
    rows = [
        (
            f"{share:g}",
            str(heads[share]),
            *(
                interval(own[share][1]) if share in own else MISSING
                for own in curve.points.values()
            ),
        )
        for share in sorted(heads)
    ]
    head = ("`head_fraction`", "heads", *(KINDS[kind] for kind in curve.points))
    over = count({len(curve.seeds)}, "seed")
    return f"{curve.task} by the share of heads added, {over}:\n\n{markdown(head, rows)}"


def choices_table(runs: HeadRuns) -> str:
    """Where each kind of heads was added, and what that gave from seed to seed."""
    rows = []
    for task, kind in product(runs.tasks, KINDS):
        arms = [arm for of, arm in runs.rows if of == task and arm.added == kind]
        for arm in sorted(arms, key=lambda arm: arm.fraction):
            own = list(runs.rows[task, arm].values())
            choices = [choice for row in own for choice in row.choices]
            known = [c.development for c in choices if c.development is not None]
            rows.append(
                (
                    task,
                    KINDS[kind],
                    _range([c.heads for c in choices], 0),
                    _range([c.layer for c in choices], 0),
                    _range([c.strength for c in choices], 1),
                    _range(known) if known else NO_TASK,
                    _range([_mean(row) for row in own]),
                    str(len(own)),
                )
            )
    head = ("heads", "number", "layer", "strength", "accuracy in development", "accuracy", "seeds")
    return markdown(("task", *head), rows)


def _table(runs: HeadRuns, cells: Cells, names: Mapping[Arm, str]) -> str:
    """A line for each task and score, and for the mean of the four sets where all are there."""
    arms = next(iter(cells.values())).keys()
    drawn = [len(own) for task in cells.values() for arm, own in task.items() if arm != ZERO_SHOT]
    usual = max(drawn) or 1

    def line(
        label: str, score: str, tasks: Sequence[str], found: Callable[[Arm], Interval]
    ) -> tuple[str, ...]:
        def cell(arm: Arm) -> str:
            seeds = {len(cells[task][arm]) for task in tasks}
            if 0 in seeds:
                return MISSING
            usually = arm == ZERO_SHOT or seeds == {usual}
            return interval(found(arm)) + ("" if usually else f" ({count(seeds, 'seed')})")

        return (label, score, *map(cell, arms))

    def of_task(task: str, score: str, name: str) -> tuple[str, ...]:
        def found(arm: Arm) -> Interval:
            return runs.share(task, arm, score, cells[task][arm])

        return line(task, name, [task], found)

    def mean(ratio: bool) -> tuple[str, ...]:
        def found(arm: Arm) -> Interval:
            return mean_share(runs, {task: cells[task][arm] for task in SETS}, arm, ratio)

        return line("mean of the four sets", "TR ratio" if ratio else "accuracy", SETS, found)

    rows = []
    for task in cells:
        rows += [of_task(task, score, name) for score, name in _scores(task).items()]
        if task == SETS[-1] and all(one in cells for one in SETS):
            rows += [mean(ratio=False), mean(ratio=True)]
    table = markdown(("task", "score", *(names[arm] for arm in arms)), rows)
    return f"{table}\nOver {count({usual}, 'seed')} where a cell says no other number.\n"


def _scores(task: str) -> dict[str, str]:
    """What is told of a task: its metrics, and their names in the tables."""
    if task.startswith(GENERATION):
        return {score_of(task): "tone as asked"}
    return {score_of(task): "accuracy", RATIO: "TR ratio"}


def _recovered(runs: HeadRuns) -> list[str]:
    """How much of what ICL adds on the four sets each kind of heads adds; nothing where unknown."""
    shares = {}
    for kind, arm in ADDED.items():
        tasks = {task: runs.shared_seeds(task, (ZERO_SHOT, ICL, arm)) for task in SETS}
        if all(tasks.values()):
            low, high, own = (mean_share(runs, tasks, a).estimate for a in (ZERO_SHOT, ICL, arm))
            if high > low:
                shares[KINDS[kind]] = (own - low) / (high - low)
    if not shares:
        return []
    said = ", ".join(f"{name} {number(100 * share, 0)} %" for name, share in shares.items())
    return [f"Of what ICL adds to zero-shot accuracy, mean of the four sets, they add: {said}.\n"]


def _facts(runs: HeadRuns) -> str:
    """What was tested, and what the runs were made with; different values stand side by side."""
    rows = [row for own in runs.rows.values() for row in own.values()]
    facts: dict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        for name, value in row.facts.items():
            facts[name][value] = None
    tested: dict[str, list[str]] = defaultdict(list)
    for task in runs.tasks:
        row = next(row for row in rows if row.task == task)
        queries = len({*row.queries})
        repeated = "" if queries == len(row.queries) else f" over {queries} queries"
        tested[f"{len(row.queries)} documents{repeated}"].append(task)
    said = [f"{what} of {', '.join(tasks)}" for what, tasks in tested.items()]
    said += [f"{name} {' / '.join(sorted(values))}" for name, values in facts.items()]
    return f"{'; '.join(said)}.\n"


def _choices_part(runs: HeadRuns) -> str:
    return f"#### {runs.model}\n\n{choices_table(runs)}"


def _mean(row: Row) -> float:
    return fmean(row.scores[score_of(row.task)])


def _range(values: Sequence[float], digits: int = 2) -> str:
    """Such as `0.40 to 0.72`, or the one value that all have."""
    ends = dict.fromkeys(number(value, digits) for value in (min(values), max(values)))
    return " to ".join(ends)
