"""Markdown of maps under ICL and with a task vector: accuracies, bijection gaps, chosen layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import accumulate
from pathlib import Path
from typing import Any

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.gap import DIRECTIONS, verdict
from harness_ext.compare.reading import read
from harness_ext.compare.statistics import Interval
from harness_ext.compare.table1 import ICL, TV, MapLine, ModelTable, table1
from harness_ext.compare.text import count, number
from harness_ext.errors import UsageError

ARROWS = ("X→Y", "Y→X", "X↔Y")
MISSING, NO_TASK = "missing", "–"
NOTHING = "Nothing is recorded yet.\n"

LEGEND = """\
Share of answers that are right (`answer_match`), with 95 % intervals. ICL: demonstrations in the
prompt, no steering; TV: a task vector in a zero-shot prompt; X→Y, Y→X and X↔Y: the tasks
`forward_`, `inverse_` and `bijection_` of a map (antonym is its own inverse). The gap is the mean
of the two directions minus X↔Y. A pair of words is one cluster: its queries, in both directions, in
all draws and with all seeds, count as dependent. Intervals are Wilson's at the effective sample
size for accuracies, and Student's t over pairs for gaps and their difference; both count one pair
more than there is, half of it at either extreme, which keeps their coverage with few pairs and near
0 and 1.

The paper's claim is that gaps are wider with TV. A map "shows" it where the difference is above 0
with p < 0.05, shows "the other way" where it is below, and "does not show" it otherwise: the
difference may then be there, and be too small for so few pairs. The p-values belong to the
intervals, and are Holm's for the maps of a model; so a map may not show what its own interval
would. The mean over maps, each of which counts once, is judged by its interval alone.
"""
LAYERS = """\
Layers are those chosen on development episodes, with the accuracy on these in brackets.
"""


def section(folders: Sequence[Path], maps: Sequence[str] = ()) -> str:
    """The results in the folders as Markdown, one part for each model, what is missing being said.

    Raises :class:`UsageError` naming the first file that cannot be used.
    """
    reading = read(folders)
    if reading.problems:
        raise UsageError(str(reading.problems[0]))
    table = table1(reading.evaluations, maps)
    if table is None:
        raise UsageError(
            f"{', '.join(map(str, folders))}: no map was evaluated with a task vector."
        )
    return "\n".join([LEGEND, LAYERS, *map(_part, table.models)])


def _part(model: ModelTable) -> str:
    everything = [each for own in model.evaluations.values() for each in own]
    blocks = [f"### {model.model}\n", made_with(everything, model.evaluations[TV])]
    blocks += [f"**{note}**\n" for note in model.notes]
    blocks += [markdown(*table(model)) for table in (accuracy_table, gap_table, layer_table)]
    return "\n".join(blocks)


Table = tuple[Sequence[str], list[tuple[str, ...]]]


def accuracy_table(model: ModelTable) -> Table:
    """Head and rows: the accuracy of each map in each setting and direction."""

    def cell(line: MapLine, setting: str, task: str) -> str:
        found = line.cells.get((setting, task))
        return MISSING if found is None else interval(found.score.interval)

    rows = [
        (line.word_map.name, _setting(model, setting), *_each_way(line, cell, setting))
        for line in model.lines
        for setting in model.rows
    ]
    return ("map", "setting", *ARROWS), rows


def gap_table(model: ModelTable) -> Table:
    """Head and rows: the bijection gap under ICL and with a task vector, and whether it changes."""
    rows: list[tuple[str, ...]] = []
    for line in model.lines:
        change = line.change
        if change is not None:
            gaps = (change.icl, change.tv, change.difference)
            rows.append((line.word_map.name, *_gap_cells(gaps), line.verdict))
        elif line.word_map.one_way:
            rows.append((line.word_map.name, *[MISSING] * 4))
    if model.mean is not None:
        maps = sum(line.change is not None for line in model.lines)
        rows.append((f"mean of {maps}", *_gap_cells(model.mean), verdict(model.mean[2])))
    return ("map", "gap(ICL)", "gap(TV)", "gap(TV) − gap(ICL)", "wider with TV"), rows


def layer_table(model: ModelTable) -> Table:
    """Head and rows: what each map was tested on, and the layers chosen, one for each seed."""

    def asked(line: MapLine, setting: str, task: str) -> str:
        found = line.cells.get((setting, task))
        return MISSING if found is None else str(found.score.documents)

    def layers(line: MapLine, setting: str, task: str) -> str:
        found = line.cells.get((setting, task))
        if found is None:
            return MISSING
        return ", ".join(dict.fromkeys(map(chosen_layer, found.evaluations)))

    rows = []
    for line in model.lines:
        both_ways = line.cells.get((TV, line.word_map.both_ways))
        pairs = MISSING if both_ways is None else str(both_ways.score.clusters)
        counts = " / ".join(_each_way(line, asked, TV))
        rows.append((line.word_map.name, pairs, counts, *_each_way(line, layers, TV)))
    head = ("map", "test pairs", f"documents {' / '.join(ARROWS)}")
    return (*head, *(f"layer {arrow}" for arrow in ARROWS)), rows


def interval(value: Interval, signed: bool = False, digits: int = 2) -> str:
    """An interval such as `0.93 [0.84, 0.97]`; `signed` writes the plus of the estimate too."""
    ends = f"[{number(value.low, digits)}, {number(value.high, digits)}]"
    plus = "+" if signed and round(value.estimate, digits) > 0 else ""
    return f"{plus}{number(value.estimate, digits)} {ends}"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with aligned columns, to be read as plain text too."""
    lines = [[cell.replace("|", r"\|") for cell in line] for line in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"| {' | '.join(map(str.ljust, line, widths))} |\n" for line in lines)


def markdown_within(
    limit: float,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    kinds: Sequence[str],
    words: Mapping[str, str],
) -> str:
    """A Markdown table in at most `limit` characters, and in words what is left out of it.

    kinds: one of each row. words: of each kind what tasks of it do, such as "that are better"; rows
    of the first kind are left out first, of a kind the last rows, and others keep their order. Head
    and words are there in any case.
    """
    whole = markdown(head, rows)
    if len(whole) <= limit:
        return whole
    line = len(whole) // (len(rows) + 2)
    room = int(limit - len(_left_out(kinds, words))) // line - 2
    order = list(words)
    wanted = sorted(range(len(rows)), key=lambda place: -order.index(kinds[place]))
    kept, lost = sorted(wanted[: max(room, 0)]), wanted[max(room, 0) :]
    return markdown(head, [rows[place] for place in kept]) + _left_out(
        [kinds[place] for place in lost], words
    )


def _left_out(kinds: Sequence[str], words: Mapping[str, str]) -> str:
    counts = Counter(kinds)
    told = [f"{count(counts[kind], 'task')} {does}" for kind, does in words.items() if counts[kind]]
    return f"\n… and {', '.join(told)}\n"


def bullets_within(limit: float, sentences: Sequence[str]) -> str:
    """A Markdown list in at most `limit` characters; the last entries are left out, and counted."""
    lines = [f"- {sentence}\n" for sentence in sentences]
    if sum(map(len, lines)) <= limit:
        return "".join(lines)
    room = limit - len(_more(len(lines)))
    kept = sum(end <= room for end in accumulate(map(len, lines)))
    return "".join(lines[:kept]) + _more(len(lines) - kept)


def _more(entries: int) -> str:
    return f"- … and {entries:,} more\n"


def _setting(model: ModelTable, setting: str) -> str:
    return f"{ICL} ({model.rows[ICL].shots})" if setting == ICL else setting


def _each_way(line: MapLine, cell: Callable[[MapLine, str, str], str], setting: str) -> list[str]:
    """The cells of the columns X→Y, Y→X and X↔Y."""
    names = [f"{direction}_{line.word_map.name}" for direction in DIRECTIONS]
    return [cell(line, setting, name) if name in line.word_map.tasks else NO_TASK for name in names]


def _gap_cells(gaps: Sequence[Interval]) -> tuple[str, ...]:
    icl, tv, difference = gaps
    return interval(icl), interval(tv), interval(difference, signed=True)


def chosen_layer(evaluation: Evaluation) -> str:
    """Such as `21 (0.22)`, or `21 (given)` where no layer was searched for."""
    layer = evaluation.steering.get("layer")
    there = evaluation.steering.get("development_accuracy")
    if not isinstance(layer, int):
        return MISSING
    return f"{layer} ({number(there) if isinstance(there, int | float) else 'given'})"


def made_with(evaluations: Sequence[Evaluation], steered: Sequence[Evaluation]) -> str:
    """What evaluations were made with; where they differ, their values stand side by side.

    The steering arguments are those of the steered ones.
    """

    def values(said: Callable[[Evaluation], Any], among: Sequence[Evaluation] = evaluations) -> str:
        found = {said(each) for each in among}
        # Numbers by their size.
        return " / ".join(
            map(str, sorted(found, key=lambda one: (one if isinstance(one, int) else 0, str(one))))
        )

    def recorded(each: Evaluation) -> Any:
        return datetime.fromtimestamp(each.date, timezone.utc).date()

    found = {
        "Recorded": values(recorded),
        "few-shot seed": values(lambda each: each.seed),
        "dtype": values(lambda each: each.settings.get("dtype")),
        "lm-eval": values(lambda each: each.facts.get("lm-eval")),
        "transformers": values(lambda each: each.facts.get("transformers")),
        "PyTorch": values(lambda each: each.facts.get("PyTorch")),
    }
    if steered:
        found |= {
            "steering seed": values(lambda each: each.facts.get("steering seed"), steered),
            "demonstrations": values(lambda each: each.settings.get("demos"), steered),
            "development episodes": values(lambda each: each.settings.get("dev"), steered),
        }
    return f"{'; '.join(f'{name} {value}' for name, value in found.items())}.\n"
