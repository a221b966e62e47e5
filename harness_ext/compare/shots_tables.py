"""Task vectors at 0 to 4 shots as Markdown: tables, and which of the paper's claims show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness_ext.compare.gap import verdict
from harness_ext.compare.shots import (
    BASELINE,
    CELLS,
    CLAIMS,
    METHODS,
    SHOTS,
    TASKV,
    Claim,
    ShotCells,
    mean_accuracy,
    mean_difference,
    read_models,
)
from harness_ext.compare.statistics import Interval
from harness_ext.compare.tables import (
    MISSING,
    NO_TASK,
    NOTHING,
    chosen_layer,
    interval,
    made_with,
    markdown,
)

SAME_AS_TASKV = f"= {TASKV}"

LEGEND = """\
Share of answers that are right (`answer_match`), a mean over tasks that each count once, with 95 %
intervals. The shots are demonstrations in the tested prompt. Baseline: no steering; TaskV: a task
vector at the last cue (`tv`); TaskV-M and TaskV-MS: vectors at every cue (`tv_m`, `tv_ms`).
Differences are paired by document. A pair of words is one cluster: its queries and draws, in all
tasks that have it, count as dependent. Intervals are Student's t with Welch–Satterthwaite degrees
of freedom; they count two clusters more than there are, one at either extreme. They hold for these
tasks and these layers.

A claim "shows" at a number of shots where the interval of the difference lies above 0, shows "the
other way" where it lies below, and "does not show" where it holds 0: the difference may then be
there, and be too small for so few documents. Nothing is corrected for the number of rows. Layers
are chosen on development episodes here; the paper's Table 2 gives the accuracy of the best layer on
the very prompts it was chosen on, which flatters the vectors.
"""
TASKS_LEGEND = """\
Share of right answers to each task (`answer_match`), with Wilson's 95 % intervals, clustered by
pair. Layers are those chosen on development episodes, with the accuracy on these in brackets.
"""


def section(folder: Path) -> str:
    """The means over tasks of all models recorded in the folder, as Markdown.

    Raises :class:`UsageError` naming the first recorded file that cannot be used, or two runs of a
    model that answer different documents.
    """
    models = read_models(folder)
    return "\n".join([LEGEND, *map(_means, models)]) if models else NOTHING


def tasks_section(folder: Path) -> str:
    """Every task of all models recorded in the folder, as Markdown; raises as `section` does."""
    models = read_models(folder)
    return "\n".join([TASKS_LEGEND, *map(_each_task, models)]) if models else NOTHING


def _means(model: ShotCells) -> str:
    groups = dict.fromkeys(task.partition("_")[0] for task in model.tasks)
    return "\n".join([_head(model), *(_group(model, group) for group in groups)])


def _head(model: ShotCells) -> str:
    steered = model.evaluations(name for name in METHODS if name != BASELINE)
    blocks = [f"#### {model.model}\n", made_with(model.evaluations(METHODS), steered)]
    there = {(name, shots) for name, shots, _ in model.cells}
    absent = [
        f"{name} (`method={method}`) at {_list(shots)} shots"
        for name, method in METHODS.items()
        if (shots := [n for n in SHOTS if (name, n) in CELLS and (name, n) not in there])
    ]
    if absent:
        blocks.append(f"**Not recorded:** {'; '.join(absent)}.\n")
    return "\n".join(blocks)


def _group(model: ShotCells, group: str) -> str:
    """The means of one group, the differences, and what they say of the paper's claims."""
    tasks = model.complete(group)
    others = [t for t in model.tasks if t.startswith(f"{group}_") and t not in tasks]
    blocks = []
    if tasks:
        names = ", ".join(task.removeprefix(f"{group}_") for task in tasks)
        documents = sum(cell.score.documents for cell in model.of(TASKV, 0, tasks))
        differences = {
            (claim, n): mean_difference(
                model.of(claim.above, n, tasks), model.of(claim.below, n, tasks)
            )
            for claim in CLAIMS
            for n in claim.shots
        }
        blocks += [
            f"Mean over {len(tasks)} `{group}_*` tasks, {documents} documents: {names}.\n",
            _accuracy_table(model, tasks),
            _difference_table(differences),
            "".join(f"- {_sentence(claim, differences)}\n" for claim in CLAIMS),
        ]
    else:
        blocks.append(f"No `{group}_*` task is recorded in every cell, so there is no mean.\n")
    if others:
        blocks.append(f"**Left out, not recorded in every cell:** {', '.join(others)}.\n")
    return "\n".join(blocks)


def _accuracy_table(model: ShotCells, tasks: Sequence[str]) -> str:
    def cell(name: str, shots: int) -> str:
        if (name, shots) not in CELLS:
            return SAME_AS_TASKV
        return interval(mean_accuracy(model.of(name, shots, tasks)), digits=3)

    rows = [(str(shots), *(cell(name, shots) for name in METHODS)) for shots in SHOTS]
    return markdown(("shots", *METHODS), rows)


def _difference_table(differences: Mapping[tuple[Claim, int], Interval]) -> str:
    def cell(claim: Claim, shots: int) -> str:
        if (claim, shots) not in differences:
            return NO_TASK
        return interval(differences[claim, shots], signed=True, digits=3)

    rows = [(str(shots), *(cell(claim, shots) for claim in CLAIMS)) for shots in SHOTS]
    return markdown(("shots", *(f"{c.above} − {c.below}" for c in CLAIMS)), rows)


def _sentence(claim: Claim, differences: Mapping[tuple[Claim, int], Interval]) -> str:
    """Whether a claim shows, such as `…: shows at 0 and 1, does not show at 2, 3 and 4 shots.`"""
    found: dict[str, list[int]] = {}
    for shots in claim.shots:
        found.setdefault(verdict(differences[claim, shots]), []).append(shots)
    said = ", ".join(f"{what} at {_list(shots)}" for what, shots in found.items())
    return (
        f"{claim.above} above {claim.below} at {claim.shots[0]} to {claim.shots[-1]} shots (the "
        f"paper: {claim.there}): {said} shots."
    )


def _each_task(model: ShotCells) -> str:
    """A row for each task and number of shots."""

    def score(name: str, shots: int, task: str) -> str:
        if (name, shots) not in CELLS:
            return SAME_AS_TASKV
        found = model.cells.get((name, shots, task))
        return MISSING if found is None else interval(found.score.interval)

    def layer(name: str, shots: int, task: str) -> str:
        if (name, shots) not in CELLS:
            return SAME_AS_TASKV
        found = model.cells.get((name, shots, task))
        if found is None:
            return MISSING
        return ", ".join(dict.fromkeys(map(chosen_layer, found.evaluations)))

    steered = [name for name in METHODS if name != BASELINE]
    rows = [
        (
            task,
            str(shots),
            *(score(name, shots, task) for name in METHODS),
            *(layer(name, shots, task) for name in steered),
        )
        for task in model.tasks
        for shots in SHOTS
    ]
    head = ("task", "shots", *METHODS, *(f"layer {name}" for name in steered))
    return "\n".join([_head(model), markdown(head, rows)])


def _list(numbers: Iterable[int]) -> str:
    """Numbers as they are listed in a sentence: `1`, `1 and 2`, `1, 2 and 3`."""
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
