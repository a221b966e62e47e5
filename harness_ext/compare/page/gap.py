"""Table 1 and the bijection gap: the table, and the same gaps as a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness_ext.compare.gap import DIRECTIONS
from harness_ext.compare.page import svg
from harness_ext.compare.statistics import Interval
from harness_ext.compare.table1 import ICL, TV, MapLine, ModelTable, Table1
from harness_ext.compare.text import clip, number

SETTINGS = (ICL, TV)
MEAN = "mean"
WIDTH, LEFT, RIGHT = 360, 82, 10
LINE, TOP, BOTTOM = 34, 8, 38


@dataclass(frozen=True)
class Number:
    """An estimate and its interval as text; `ends` is empty where there is no interval."""

    estimate: str
    ends: str


@dataclass(frozen=True)
class GapRow:
    """A map, or the mean over maps.

    Attributes:
        accuracies: X→Y, Y→X and X↔Y, each with ICL and with TV; empty for the mean.
        gaps: with ICL, with TV, and the second minus the first; empty where there is none.
        verdict: whether the gap is shown to be wider with TV.
    """

    name: str
    accuracies: tuple[Number | None, ...]
    gaps: tuple[Number, ...]
    verdict: str


@dataclass(frozen=True)
class GapTable:
    """Table 1 of one model; chart: None where no map has a gap."""

    model: str
    rows: tuple[GapRow, ...]
    chart: Markup | None
    notes: tuple[str, ...]


def gap_tables(table: Table1) -> list[GapTable]:
    """The table of each model, and its chart; the charts have one scale."""
    charted = [_gaps_of(model) for model in table.models]
    intervals = [interval for own in charted for _, gaps in own for interval in gaps]
    low = min((interval.low for interval in intervals), default=0.0)
    high = max((interval.high for interval in intervals), default=0.0)
    scale = (min(0.0, low), max(0.0, high))
    return [
        GapTable(
            model.model,
            tuple(_rows(model)),
            _draw(model.model, gaps, scale) if gaps else None,
            model.notes,
        )
        for model, gaps in zip(table.models, charted, strict=True)
    ]


def mark(setting: int, x: float, y: float) -> Markup:
    """The mark of a setting: a hollow circle for ICL, a full square for TV."""
    if setting == 0:
        return svg.element("circle", cx=x, cy=y, r=4.5, class_="mark hollow c0")
    return svg.element("rect", x=x - 4.5, y=y - 4.5, width=9, height=9, class_="mark c1")


def _gaps_of(model: ModelTable) -> list[tuple[str, tuple[Interval, ...]]]:
    gaps: list[tuple[str, tuple[Interval, ...]]] = [
        (line.word_map.name, (line.change.icl, line.change.tv))
        for line in model.lines
        if line.change
    ]
    return gaps if model.mean is None else [*gaps, (MEAN, model.mean[:2])]


def _rows(model: ModelTable) -> list[GapRow]:
    rows = [_row(line) for line in model.lines]
    # A map may have been evaluated in a setting that has no place here.
    rows = [row for row in rows if any(row.accuracies)]
    return rows if model.mean is None else [*rows, GapRow(MEAN, (), _gaps(*model.mean), "")]


def _row(line: MapLine) -> GapRow:
    tasks = [f"{direction}_{line.word_map.name}" for direction in DIRECTIONS]
    cells = [line.cells.get((setting, task)) for task in tasks for setting in SETTINGS]
    change = line.change
    return GapRow(
        line.word_map.name,
        tuple(None if cell is None else _number(cell.score.interval) for cell in cells),
        _gaps(change.icl, change.tv, change.difference) if change else (),
        line.verdict,
    )


def _gaps(icl: Interval, tv: Interval, difference: Interval) -> tuple[Number, ...]:
    return (_number(icl), _number(tv), _number(difference, signed=True))


def _number(interval: Interval, signed: bool = False) -> Number:
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    ends = f"{number(interval.low)} to {number(interval.high)}" if known else ""
    return Number(number(interval.estimate, signed=signed), ends)


def _draw(
    model: str, gaps: Sequence[tuple[str, tuple[Interval, ...]]], scale: tuple[float, float]
) -> Markup:
    low, high = scale
    bottom = TOP + LINE * len(gaps)

    def x(value: float) -> float:
        return LEFT + (value - low) / ((high - low) or 1.0) * (WIDTH - LEFT - RIGHT)

    parts = []
    for tick in svg.ticks(low, high):
        parts.append(svg.line(x(tick), TOP, x(tick), bottom, "grid" if tick else "axis"))
        parts.append(svg.text(svg.tick_name(tick), x(tick), bottom + 15, "middle"))
    for place, (name, own) in enumerate(gaps):
        middle = TOP + LINE * (place + 0.5)
        look = "strong" if name == MEAN and place == len(gaps) - 1 else ""
        parts.append(svg.text(name, LEFT - 10, middle + 4, "end", look, most=14))
        for setting, interval in enumerate(own):
            y = middle + (-6, 6)[setting]
            parts.append(svg.line(x(interval.low), y, x(interval.high), y, f"whisker c{setting}"))
            parts.append(mark(setting, x(interval.estimate), y))
    middle_x = (LEFT + WIDTH - RIGHT) / 2
    label = "accuracy one way − accuracy both ways"
    parts.append(svg.text(label, middle_x, bottom + 32, "middle", "muted"))
    told = "; ".join(
        f"{clip(name, 40)}: ICL {number(own[0].estimate)}, TV {number(own[1].estimate)}"
        for name, own in gaps
    )
    return svg.picture(
        WIDTH,
        bottom + BOTTOM,
        f"Bijection gap with ICL and with a task vector, by map: {clip(model)}",
        f"Differences of accuracies with 95 % intervals. {told}.",
        *parts,
    )
