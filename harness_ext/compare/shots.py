"""Task vectors at 0 to 4 shots: tables of recorded results, and which of the paper's claims show.

Table 2 of Dong et al. 2026 (arXiv 2506.09048) compares, at each number of shots, the model itself
with a task vector at the last cue (TaskV) and with vectors at every cue (TaskV-M, TaskV-MS). With
no demonstrations the last cue is the only one, and the three are one method.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness_ext.compare.gap import SCORE, accuracy, check_same_documents, clusters
from harness_ext.compare.runs import Answer, Run, read_runs
from harness_ext.compare.statistics import Interval, task_mean_interval
from harness_ext.compare.tables import MISSING, NO_TASK, chosen_layer, facts, interval, markdown

BASELINE, TASKV, TASKV_M, TASKV_MS = "baseline", "TaskV", "TaskV-M", "TaskV-MS"
METHODS: Mapping[str, str] = {BASELINE: "none", TASKV: "tv", TASKV_M: "tv_m", TASKV_MS: "tv_ms"}
AT_EVERY_CUE = (TASKV_M, TASKV_MS)
SHOTS = range(5)
GROUPS = ("bijection", "forward")
SAME_AS_TASKV = f"= {TASKV}"
SHOWS, NOT_SHOWN, OTHER_WAY = "shows", "does not show", "the other way"

LEGEND = """\
Share of answers that are right (`answer_match`), a mean over tasks that each count once, with 95 %
intervals. The shots are demonstrations in the tested prompt. Baseline: no steering; TaskV: a task
vector at the last cue (`tv`); TaskV-M and TaskV-MS: vectors at every cue (`tv_m`, `tv_ms`).
Differences are paired by document. A pair of words is one cluster of its task: its queries and
draws count as dependent, tasks as independent, even where they share words. Intervals are
Student's t with Welch–Satterthwaite degrees of freedom; they count two clusters more than there
are, one at either extreme. They hold for these tasks and these layers.

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
NOTHING = "Nothing is recorded yet.\n"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: one method above another at so many shots."""

    above: str
    below: str
    shots: range
    there: str


CLAIMS = (
    Claim(TASKV, BASELINE, SHOTS, "at every number of shots"),
    Claim(TASKV_M, TASKV, SHOTS[1:], "by about 0.01 to 0.02 on Llama-13B"),
    Claim(TASKV_MS, TASKV, SHOTS[1:], "by about 0.01 to 0.02 on Llama-13B"),
)
CELLS = tuple(
    (name, shots) for name in METHODS for shots in SHOTS if shots or name not in AT_EVERY_CUE
)


@dataclass(frozen=True)
class ShotRuns:
    """The runs of one model, by method's name and shots; some cells may be missing."""

    model: str
    runs: Mapping[tuple[str, int], Run]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the groups that are recorded in some cell, group by group."""
        names = {task for run in self.runs.values() for task in run.answers}
        return tuple(t for group in GROUPS for t in sorted(names) if t.startswith(f"{group}_"))

    def answered(self, name: str, shots: int, task: str) -> bool:
        """Whether the task is recorded in this cell."""
        return (name, shots) in self.runs and task in self.runs[name, shots].answers

    def complete(self, group: str) -> list[str]:
        """The tasks of a group that are recorded in every cell."""
        return [
            task
            for task in self.tasks
            if task.startswith(f"{group}_") and all(self.answered(*cell, task) for cell in CELLS)
        ]


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


def read_models(folder: Path) -> list[ShotRuns]:
    """The runs of every model recorded in the folder; raises as `section` does."""
    runs = {run.cell: run for run in read_runs(folder)}
    names = {method: name for name, method in METHODS.items()}
    models: dict[str, dict[tuple[str, int], Run]] = {}
    for cell, run in runs.items():
        place = (names.get(cell.method, ""), cell.shots)
        if place in CELLS:
            models.setdefault(cell.model, {})[place] = run
    found = [ShotRuns(model, cells) for model, cells in models.items()]
    for model in found:
        for task in model.tasks:
            check_same_documents(task, [r for r in model.runs.values() if task in r.answers])
    return found


def mean_accuracy(run: Run, tasks: Sequence[str]) -> Interval:
    """The mean over tasks of the share of right answers."""
    return task_mean_interval([_sums(run.answers[task], {}) for task in tasks])


def mean_difference(above: Run, below: Run, tasks: Sequence[str]) -> Interval:
    """The mean over tasks of the accuracy in one run minus that in another, paired by document."""
    paired = [
        _sums(above.answers[task], {a.doc_hash: a.scores[SCORE] for a in below.answers[task]})
        for task in tasks
    ]
    return task_mean_interval(paired, extremes=(-1, 1))


def verdict(difference: Interval) -> str:
    """Whether the interval of a difference shows that it is above 0."""
    if difference.low > 0:
        return SHOWS
    return OTHER_WAY if difference.high < 0 else NOT_SHOWN


def _sums(answers: Sequence[Answer], minus: Mapping[str, int]) -> list[tuple[int, int]]:
    """Sum and number of the scores in each cluster, less the scores given by document."""
    return [
        (sum(a.scores[SCORE] - minus.get(a.doc_hash, 0) for a in pair), len(pair))
        for pair in clusters(answers)
    ]


def _means(model: ShotRuns) -> str:
    return "\n".join([_head(model), *(_group(model, group) for group in GROUPS)])


def _head(model: ShotRuns) -> str:
    steered = [run for (name, _), run in model.runs.items() if name != BASELINE]
    blocks = [f"#### {model.model}\n", facts(list(model.runs.values()), next(iter(steered), None))]
    absent = [
        f"{name} (`method={method}`) at {_list(shots)} shots"
        for name, method in METHODS.items()
        if (shots := [n for n in SHOTS if (name, n) in CELLS and (name, n) not in model.runs])
    ]
    if absent:
        blocks.append(f"**Not recorded:** {'; '.join(absent)}.\n")
    return "\n".join(blocks)


def _group(model: ShotRuns, group: str) -> str:
    """The means of one group, the differences, and what they say of the paper's claims."""
    tasks = model.complete(group)
    others = [t for t in model.tasks if t.startswith(f"{group}_") and t not in tasks]
    blocks = []
    if tasks:
        names = ", ".join(task.removeprefix(f"{group}_") for task in tasks)
        documents = sum(len(model.runs[TASKV, 0].answers[task]) for task in tasks)
        differences = {
            (claim, n): mean_difference(
                model.runs[claim.above, n], model.runs[claim.below, n], tasks
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


def _accuracy_table(model: ShotRuns, tasks: Sequence[str]) -> str:
    def cell(name: str, shots: int) -> str:
        if (name, shots) not in CELLS:
            return SAME_AS_TASKV
        return interval(mean_accuracy(model.runs[name, shots], tasks), digits=3)

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


def _each_task(model: ShotRuns) -> str:
    """A row for each task and number of shots."""

    def score(name: str, shots: int, task: str) -> str:
        if (name, shots) not in CELLS:
            return SAME_AS_TASKV
        if not model.answered(name, shots, task):
            return MISSING
        return interval(accuracy(model.runs[name, shots].answers[task]))

    def layer(name: str, shots: int, task: str) -> str:
        if (name, shots) not in CELLS:
            return SAME_AS_TASKV
        if not model.answered(name, shots, task):
            return MISSING
        return chosen_layer(model.runs[name, shots], task)

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
