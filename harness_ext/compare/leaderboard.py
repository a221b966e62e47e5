"""The leaderboard: models and methods as rows, tasks and means over tasks as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import inf

from harness_ext.compare.board_cells import Answers, Cell, Score, make_cell, mean_score
from harness_ext.compare.board_columns import (
    OVERALL,
    SEVERAL,
    Column,
    categories,
    categories_of,
    mean_columns,
    task_column,
)
from harness_ext.compare.board_notes import cell_notes, document_notes, seed_notes, version_notes
from harness_ext.compare.board_rows import Row, order, rows_of
from harness_ext.compare.evaluations import Evaluation, Problem, Reading
from harness_ext.compare.significance import ALPHA, differences, holm, sign_flip_test
from harness_ext.compare.text import listed
from harness_ext.errors import UsageError

__all__ = ["Choice", "Column", "Leaderboard", "Row", "Score", "build", "chosen"]

BY_ROW = ("model", "method")
Scores = dict[tuple[Row, str], Score]
Cells = Mapping[tuple[Row, str], Cell]


@dataclass(frozen=True)
class Choice:
    """Which part of what was read is shown, and how. What is empty or None leaves nothing out.

    Attributes:
        models, methods, tasks: patterns with `*` and `?`.
        groups: of tasks: lm-eval's, or categories such as `bijection`.
        shots, seeds: those shown.
        metric: instead of each task's usual one.
        sort: `model`, `method`, or the name of a column, the best first; by default the mean over
            all tasks where there is one, else `model`.
    """

    models: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    shots: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    metric: str | None = None
    sort: str | None = None


@dataclass(frozen=True)
class Leaderboard:
    """The table.

    Attributes:
        metric: the score, `several` where columns differ; each column knows its own.
        columns: tasks by name, then means over categories of tasks, then the mean over all.
        rows: in the order asked for.
        scores: by row and name of a column; what is missing was not evaluated.
        notes: sentences that belong under the table.
        problems: what is wrong with the files it was made from.
    """

    metric: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    scores: Mapping[tuple[Row, str], Score]
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]


def build(reading: Reading, choice: Choice | None = None) -> Leaderboard:
    """The leaderboard of what was read, or of the chosen part of it.

    Raises :class:`UsageError` where nothing is left to show, or there is no column to sort by.
    """
    choice = choice or Choice()
    evaluations = chosen(reading, choice)
    rows = rows_of(evaluations)
    tasks, notes = _tasks(evaluations, choice.metric)
    cells = {
        (row, column.name): cell
        for row, own in rows.items()
        for column in tasks
        if (cell := make_cell(column, [each for each in own if each.task == column.name]))
    }
    notes += _without_metric(rows, tasks, cells)
    rows = {row: own for row, own in rows.items() if any(place[0] == row for place in cells)}
    held = [{task for own, task in cells if own == row} for row in rows]
    means, left_out = mean_columns(tasks, categories_of(evaluations), held)
    columns = (*tasks, *means)
    scores = _scores(cells, columns, list(rows))
    notes += left_out + document_notes(cells) + seed_notes(cells) + cell_notes(cells)
    notes += version_notes(rows)
    metrics = {column.metric for column in columns}
    return Leaderboard(
        metric=metrics.pop() if len(metrics) == 1 else SEVERAL,
        columns=columns,
        rows=_sorted(list(rows), columns, scores, choice.sort),
        scores=scores,
        notes=tuple(notes),
        problems=reading.problems,
    )


def chosen(reading: Reading, choice: Choice) -> list[Evaluation]:
    """The evaluations of the choice.

    Raises :class:`UsageError` where none is left, naming what leaves none.
    """
    left = list(reading.evaluations)
    if not left:
        raise UsageError("No results of lm-eval that can be used: there is nothing to show.")
    for option, wanted, said in _conditions(choice):
        found = [each for each in left if wanted(each)]
        if not found:
            there = {value for each in left for value in said(each)}
            # Numbers by their size.
            names = map(str, sorted(there, key=lambda n: (n if isinstance(n, int) else -1, str(n))))
            raise UsageError(f"{option} leaves nothing; there is: {listed(names, 20) or 'none'}.")
        left = found
    return left


def _conditions(
    choice: Choice,
) -> list[tuple[str, Callable[[Evaluation], bool], Callable[[Evaluation], Iterable[object]]]]:
    """Of each option given: as given, what it keeps, and which values evaluations have."""

    def patterns(
        option: str, wanted: tuple[str, ...], said: Callable[[Evaluation], Iterable[str]]
    ) -> None:
        if wanted:
            given = f"--{option} {' '.join(wanted)}"
            found.append((given, lambda each: _matches(said(each), wanted), said))

    def numbers(
        option: str, wanted: tuple[int, ...], said: Callable[[Evaluation], int | None]
    ) -> None:
        if wanted:
            given = f"--{option} {' '.join(map(str, wanted))}"
            found.append((given, lambda each: said(each) in wanted, lambda each: [said(each)]))

    found: list[
        tuple[str, Callable[[Evaluation], bool], Callable[[Evaluation], Iterable[object]]]
    ] = []
    patterns("models", choice.models, lambda each: [each.model])
    patterns("methods", choice.methods, lambda each: [each.method])
    patterns("tasks", choice.tasks, lambda each: [each.task])
    patterns("group", choice.groups, lambda each: [*sorted(categories(each)), *each.groups])
    numbers("shots", choice.shots, lambda each: each.shots)
    numbers("seeds", choice.seeds, lambda each: each.seed)
    return found


def _matches(values: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)


def _tasks(evaluations: Sequence[Evaluation], metric: str | None) -> tuple[list[Column], list[str]]:
    """The tasks' columns, by category and name, and which tasks have not the wanted metric."""
    found: dict[str, list[Evaluation]] = defaultdict(list)
    for each in evaluations:
        found[each.task].append(each)
    number = {name: place for place, name in enumerate(categories_of(evaluations))}

    def place(task: str) -> tuple[int, str]:
        return min((number[name] for name in categories(found[task][0])), default=-1), task

    tasks = sorted(found, key=place)
    columns = {task: task_column(task, found[task], metric) for task in tasks}
    without = [task for task, column in columns.items() if column is None]
    if metric and len(without) == len(columns):
        names = sorted({name for each in evaluations for name in each.metrics})
        raise UsageError(f"--metric {metric}: no task has it; there is: {listed(names, 20)}.")
    notes = [f"Left out, without {metric}: {listed(without)}."] if without else []
    return [column for column in columns.values() if column is not None], notes


def _without_metric(
    rows: Mapping[Row, Sequence[Evaluation]], tasks: Sequence[Column], cells: Cells
) -> list[str]:
    """Which rows have a task, but not the metric it is compared by."""
    missing: dict[str, list[str]] = defaultdict(list)
    for column in tasks:
        for row, own in rows.items():
            there = any(each.task == column.name for each in own)
            if there and (row, column.name) not in cells:
                missing[f"{column.name}, without {column.metric}"].append(row.name)
    return [f"Left out: {what}: {listed(names, 3)}." for what, names in missing.items()]


def _scores(cells: Cells, columns: Sequence[Column], rows: Sequence[Row]) -> Scores:
    scores: Scores = {}
    for column in columns:
        own = {
            row: [cells[row, task] for task in column.tasks]
            for row in rows
            if all((row, task) in cells for task in column.tasks)
        }
        found = {
            row: row_cells[0].score if len(row_cells) == 1 else mean_score(row_cells)
            for row, row_cells in own.items()
        }
        best = _best(found, own, column)
        for row, score in found.items():
            scores[row, column.name] = replace(score, best=row == best)
    return scores


def _best(
    scores: Mapping[Row, Score], cells: Mapping[Row, Sequence[Cell]], column: Column
) -> Row | None:
    """The row that is significantly better than every other, if there is one."""
    sign = 1 if column.higher_is_better else -1
    best, *others = sorted(scores, key=lambda row: -sign * scores[row].interval.estimate)
    if not others:
        return None
    ours = _answers(cells[best])
    p_values = []
    for row in others:
        theirs = _answers(cells[row])
        changes = differences(ours, theirs) if ours and theirs else None
        # What cannot be tested, or is not better on the documents shared, is not shown better.
        if changes is None or sign * sum(changes) <= 0:
            return None
        p_values.append(sign_flip_test(changes))
    return best if max(holm(p_values)) < ALPHA else None


def _answers(cells: Sequence[Cell]) -> list[Answers]:
    """Of all tasks; empty where one of them has none."""
    found = [cell.answers for cell in cells if cell.answers is not None]
    return found if len(found) == len(cells) else []


def _sorted(
    rows: Sequence[Row], columns: Sequence[Column], scores: Scores, by: str | None
) -> tuple[Row, ...]:
    by_name = {column.name: column for column in columns}
    if by is None:
        by = OVERALL if OVERALL in by_name else "model"
    if by == "model":
        return tuple(sorted(rows, key=order))
    if by == "method":
        return tuple(sorted(rows, key=lambda row: (order(row)[1:], row.model)))
    if by not in by_name:
        known = listed([*BY_ROW, *reversed(by_name)], 20)
        raise UsageError(f"--sort {by}: no such column; accepted: {known}.")
    sign = 1 if by_name[by].higher_is_better else -1

    def place(row: Row) -> tuple[float, object]:
        score = scores.get((row, by))
        return (inf if score is None else -sign * score.interval.estimate, order(row))

    return tuple(sorted(rows, key=place))
