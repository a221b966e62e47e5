"""Table 1 of Dong et al. 2026 (arXiv 2506.09048), made from evaluations.

For each model the plain model with the most demonstrations (ICL) stands beside a task vector in a
zero-shot prompt (TV), each map in one direction, in the other, and both ways at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness_ext.compare.board_cells import Answers, Cell, make_cell
from harness_ext.compare.board_columns import task_column
from harness_ext.compare.board_notes import cell_notes
from harness_ext.compare.board_rows import MODEL_SETTINGS, PLAIN, Row, rows_of
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.gap import (
    SCORE,
    GapChange,
    WordMap,
    gap_change,
    maps_of,
    mean_change,
    verdict,
)
from harness_ext.compare.significance import holm
from harness_ext.compare.statistics import Interval

ZERO_SHOT, ICL, TV = "zero-shot", "ICL", "TV"


@dataclass(frozen=True)
class MapLine:
    """A map: its tasks' cells by setting and task, and how its gap changes.

    Attributes:
        change: None where a task is missing or there are too few pairs.
        p_value: of the change, adjusted for the number of maps of the model (Holm).
    """

    word_map: WordMap
    cells: Mapping[tuple[str, str], Cell]
    change: GapChange | None = None
    p_value: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the gap is shown to be wider with a task vector; empty where there is no gap."""
        return verdict(self.change.difference, self.p_value) if self.change else ""


@dataclass(frozen=True)
class ModelTable:
    """The maps of one model.

    Attributes:
        model: its name, with what sets it apart from the same model run otherwise.
        rows: by setting: zero-shot, ICL, TV; what was not evaluated is missing.
        evaluations: those of the rows.
        lines: by map.
        mean: gap(ICL), gap(TV) and their difference, means over the maps that have all; None for
            fewer than two maps.
        notes: sentences that belong under the table.
    """

    model: str
    rows: Mapping[str, Row]
    evaluations: Mapping[str, Sequence[Evaluation]]
    lines: tuple[MapLine, ...]
    mean: tuple[Interval, Interval, Interval] | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Table1:
    """The tables of all models that have a map under ICL and with a task vector."""

    models: tuple[ModelTable, ...]


def table1(evaluations: Sequence[Evaluation], maps: Sequence[str] = ()) -> Table1 | None:
    """The table of the evaluations, or None where no model has both settings on some map.

    maps: those shown, in this order; by default all whose joined task was evaluated, by name.
    """
    rows = rows_of([each for each in evaluations if SCORE in each.metrics])
    models = [
        made
        for row in rows
        if row.method == "tv" and row.shots == 0
        if (made := _model(row, rows, maps)) is not None
    ]
    return Table1(tuple(models)) if models else None


def _model(
    tv: Row, rows: Mapping[Row, Sequence[Evaluation]], names: Sequence[str]
) -> ModelTable | None:
    settings = {
        setting: row
        for setting, row in (
            (ZERO_SHOT, _plain(tv, rows, with_shots=False)),
            (ICL, _plain(tv, rows, with_shots=True)),
            (TV, tv),
        )
        if row is not None
    }
    tasks = {each.task for row in settings.values() for each in rows[row]}
    maps = [WordMap(name) for name in names] or maps_of(tasks)
    own = {name: rows[row] for name, row in settings.items()}
    lines = [_line(word_map, own) for word_map in maps]
    if not any((TV, line.word_map.both_ways) in line.cells for line in lines):
        return None
    lines = _with_p_values(lines)
    changes = [line.change for line in lines if line.change]
    cells = {
        (settings[setting], task): cell
        for line in lines
        for (setting, task), cell in line.cells.items()
    }
    return ModelTable(
        model=" · ".join(filter(None, (tv.model, tv.variant))),
        rows=settings,
        evaluations=own,
        lines=tuple(lines),
        mean=mean_change(changes) if len(changes) > 1 else None,
        notes=(*_missing(settings), *_left_out(lines), *cell_notes(cells)),
    )


def _plain(tv: Row, rows: Mapping[Row, Sequence[Evaluation]], with_shots: bool) -> Row | None:
    """The plain row of the same model and dtype, with the most shots or with none."""
    alike = [
        row
        for row, own in rows.items()
        if row.model == tv.model
        and row.method in PLAIN
        and (bool(row.shots) if with_shots else row.shots == 0)
        and _of_the_model(own) == _of_the_model(rows[tv])
    ]
    # This package's own before lm-eval's: it draws the demonstrations alike.
    return max(
        alike, key=lambda row: (row.shots or 0, row.method == "none", len(rows[row])), default=None
    )


def _of_the_model(evaluations: Sequence[Evaluation]) -> list[str]:
    return [repr(evaluations[0].settings.get(name)) for name in MODEL_SETTINGS]


def _line(word_map: WordMap, settings: Mapping[str, Sequence[Evaluation]]) -> MapLine:
    cells = {
        (setting, task): cell
        for setting, own in settings.items()
        for task in word_map.tasks
        if (cell := _cell(task, own)) is not None
    }
    return MapLine(word_map, cells, gap_change(_answers(cells, ICL), _answers(cells, TV), word_map))


def _cell(task: str, evaluations: Sequence[Evaluation]) -> Cell | None:
    own = [each for each in evaluations if each.task == task]
    column = task_column(task, own, SCORE)
    return None if column is None else make_cell(column, own)


def _answers(cells: Mapping[tuple[str, str], Cell], setting: str) -> dict[str, Answers]:
    return {
        task: cell.answers
        for (name, task), cell in cells.items()
        if name == setting and cell.answers is not None and cell.column.is_share
    }


def _with_p_values(lines: Sequence[MapLine]) -> list[MapLine]:
    adjusted = iter(holm([line.change.p_value for line in lines if line.change]))
    return [
        MapLine(line.word_map, line.cells, line.change, next(adjusted)) if line.change else line
        for line in lines
    ]


def _missing(settings: Mapping[str, Row]) -> list[str]:
    return [
        f"No {setting} among these results ({how})."
        for setting, how in (
            (ICL, "`method=none` or `hf` with `--num_fewshot 10`"),
            (ZERO_SHOT, "`method=none` or `hf` with `--num_fewshot 0`"),
        )
        if setting not in settings
    ]


def _left_out(lines: Sequence[MapLine]) -> list[str]:
    counts: dict[int, list[str]] = defaultdict(list)
    for line in lines:
        if line.change and line.change.left_out:
            counts[line.change.left_out].append(line.word_map.name)
    return [
        f"{', '.join(names)}: {count} documents or pairs that are not in both settings and all "
        "directions are left out of the gap."
        for count, names in counts.items()
    ]
