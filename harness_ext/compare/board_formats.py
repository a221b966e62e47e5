"""A leaderboard as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from typing import Any

from harness_ext.compare import tables
from harness_ext.compare.board_cells import Score
from harness_ext.compare.board_columns import Column
from harness_ext.compare.board_rows import Row
from harness_ext.compare.leaderboard import Leaderboard
from harness_ext.compare.statistics import Interval
from harness_ext.compare.table1 import MapLine, ModelTable, Table1
from harness_ext.compare.text import clip, number, visible

BEST = "**"
ABSENT = "–"
NAME = 80
# More tasks than this are shown as means alone, unless all are asked for.
MOST_TASKS = 8
# What a spreadsheet would take for a formula when a text begins with it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
CSV_HEAD = (
    "model", "method", "shots", "settings", "column", "kind", "metric", "mean", "low", "high",
    "documents", "clusters", "seeds", "best", "note",
)  # fmt: skip

LEGEND = """\
Means with 95 % intervals over the tested documents. zero-shot, ICL (N): no steering, without and
with N demonstrations in the prompt (of lm-eval's own model where `hf` stands behind it); tv and
other methods: steered, with N demonstrations in the tested prompt where (N) stands behind it.
Seeds are fixed draws, averaged for each document; documents about one pair of words, or one query,
count as dependent. Scores from 0 to 1 have Wilson's interval at the effective sample size, other
scores Student's; means over tasks, each counting once, Student's with Welch–Satterthwaite degrees
of freedom, two clusters being added at the extremes. {best}: better than every other row here, each
with p < 0.05 after Holm's correction for the column (sign-flip test over clusters, paired over the
documents that both rows answered).
"""


def legend(best: str) -> str:
    """What the table means; `best` is how the best row is marked."""
    return LEGEND.format(best=best)


def shown(text: str, limit: int = NAME) -> str:
    """A name from a file in one line: nothing in it acts, hides or fills the table."""
    return clip(visible(text).replace("\n", "\\n"), limit)


def columns_shown(board: Leaderboard, all_tasks: bool) -> tuple[Column, ...]:
    """Means first; then the tasks, where they are few or wanted, else those that enter no mean."""
    means = [column for column in board.columns if column.kind == "mean"][::-1]
    tasks = [column for column in board.columns if column.kind == "task"]
    if means and not all_tasks and len(tasks) > MOST_TASKS:
        tasks = [column for column in tasks if not column.is_share]
    return (*means, *tasks)


def hidden_tasks(board: Leaderboard, columns: Sequence[Column]) -> str:
    """A sentence about the tasks that are not shown; empty where all are."""
    hidden = len(board.columns) - len(columns)
    return f"{hidden} tasks are not shown one by one: --all-tasks shows them." if hidden else ""


def heading(column: Column, board: Leaderboard) -> str:
    """The name of a column, with the number of its tasks, or its metric where columns differ."""
    name = shown(column.name)
    if column.kind == "mean":
        return f"{name} ({len(column.tasks)})"
    return name if board.metric == column.metric else f"{name}, {shown(column.metric)}"


def value(interval: Interval, ends: bool = True) -> str:
    """Such as `0.93 [0.84, 0.97]`."""
    if interval.is_known and ends:
        return tables.interval(interval)
    return number(interval.estimate)


def markdown(board: Leaderboard, table: Table1 | None, all_tasks: bool = False) -> str:
    """The leaderboard, its notes, and Table 1 where there is one, as Markdown."""
    columns = columns_shown(board, all_tasks)
    head = ("model", "method", "settings", *(heading(column, board) for column in columns))
    rows = [
        (
            row.model,
            row.label,
            row.variant,
            *(_cell(board.scores.get((row, column.name))) for column in columns),
        )
        for row in board.rows
    ]
    if not any(row.variant for row in board.rows):
        head, rows = (*head[:2], *head[3:]), [(*row[:2], *row[3:]) for row in rows]
    title = f"## Leaderboard\n\n{_metric(board)}\n"
    blocks = [title, _table(head, rows), _bullets([hidden_tasks(board, columns), *board.notes])]
    blocks.append(legend("Bold"))
    if table is not None:
        blocks += ["## Bijection gaps\n", *map(_maps, table.models), tables.LEGEND]
    if board.problems:
        told = [f"{problem.path}: {problem.message}" for problem in board.problems]
        blocks += ["## Problems with files\n", _bullets(told)]
    return "\n".join(block for block in blocks if block)


def as_csv(board: Leaderboard) -> str:
    """A line for each score, tasks and means, with all that is known of it.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for row in board.rows:
        for column in board.columns:
            score = board.scores.get((row, column.name))
            if score is not None:
                writer.writerow(_csv_row(row, column, score))
    return text.getvalue()


def as_json(board: Leaderboard, table: Table1 | None) -> str:
    """All of the leaderboard and of Table 1; ends of intervals that are not known are null."""
    found = {
        "metric": board.metric,
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "tasks": column.tasks,
                "metric": column.metric,
                "higher_is_better": column.higher_is_better,
            }
            for column in board.columns
        ],
        "rows": [
            {
                **_row(row),
                "scores": {
                    column.name: _score(board.scores[row, column.name])
                    for column in board.columns
                    if (row, column.name) in board.scores
                },
            }
            for row in board.rows
        ],
        "bijection_gaps": [_model(model) for model in table.models] if table else [],
        "notes": board.notes,
        "problems": [
            {"path": str(each.path), "message": each.message, "unused": each.unused}
            for each in board.problems
        ],
    }
    # Lone surrogates, as in damaged names of files, are no text that can be written otherwise.
    return json.dumps(found, ensure_ascii=True, indent=1, allow_nan=False) + "\n"


def _metric(board: Leaderboard) -> str:
    return f"Score: {_escaped(board.metric)}."


def _cell(score: Score | None) -> str:
    if score is None:
        return ABSENT
    text = value(score.interval)
    return f"{BEST}{text}{BEST}" if score.best else text


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    names = 3 if head[2:3] == ("settings",) else 2
    return tables.markdown(
        [_escaped(cell) for cell in head],
        [(*map(_escaped, row[:names]), *row[names:]) for row in rows],
    )


def _maps(model: ModelTable) -> str:
    blocks = [f"### {_escaped(model.model)}\n", _bullets(model.notes)]
    blocks += [
        tables.markdown(head, rows)
        for head, rows in (tables.accuracy_table(model), tables.gap_table(model))
        if rows
    ]
    return "\n".join(block for block in blocks if block)


def _bullets(sentences: Sequence[str]) -> str:
    return "".join(f"- {_escaped(each, 2000)}\n" for each in sentences if each)


def _escaped(text: str, limit: int = NAME) -> str:
    """Text as Markdown shows it, without markup of its own; bars are escaped by the table."""
    return re.sub(r"([\\`*\[\]<>~])|(?<!\w)_|_(?!\w)", r"\\\g<0>", shown(text, limit))


def _csv_row(row: Row, column: Column, score: Score) -> list[Any]:
    texts = [row.model, row.method, row.shots, row.variant, column.name, column.kind, column.metric]
    ends = [score.interval.low, score.interval.high] if score.interval.is_known else ["", ""]
    seeds = " ".join(map(str, score.seeds))
    numbers = [score.interval.estimate, *ends, score.documents or "", score.clusters or ""]
    return [*map(_harmless, texts), *numbers, seeds, int(score.best), _harmless(score.note)]


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = visible(cell).replace("\n", "\\n")
    return f"'{text}" if cell.startswith(_FORMULA) else text


def _row(row: Row) -> dict[str, Any]:
    names = {"model": row.model, "method": row.method, "shots": row.shots}
    return {**names, "settings": row.variant, "label": row.label}


def _score(score: Score) -> dict[str, Any]:
    return {
        **_interval(score.interval),
        "documents": score.documents,
        "clusters": score.clusters,
        "seeds": score.seeds,
        "best": score.best,
        "note": score.note,
    }


def _interval(interval: Interval) -> dict[str, float | None]:
    ends = (interval.low, interval.high)
    low, high = (None if math.isnan(end) else end for end in ends)
    return {"mean": interval.estimate, "low": low, "high": high}


def _model(model: ModelTable) -> dict[str, Any]:
    names = ("gap_icl", "gap_tv", "difference")
    mean = model.mean and dict(zip(names, map(_interval, model.mean), strict=True))
    return {
        "model": model.model,
        "settings": {name: _row(row) for name, row in model.rows.items()},
        "maps": [_map(line) for line in model.lines],
        "mean": mean,
        "notes": model.notes,
    }


def _map(line: MapLine) -> dict[str, Any]:
    change = line.change
    gaps = change and {
        "gap_icl": _interval(change.icl),
        "gap_tv": _interval(change.tv),
        "difference": _interval(change.difference),
        "pairs": change.pairs,
        "p_value": change.p_value,
        "p_value_holm": line.p_value,
        "verdict": line.verdict,
    }
    return {
        "map": line.word_map.name,
        "scores": {
            f"{setting}, {task}": _score(cell.score) for (setting, task), cell in line.cells.items()
        },
        "gap": gaps,
    }
