"""Markdown tables of recorded results: accuracy, bijection gaps, and chosen layers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from harness_ext.compare.gap import (
    DIRECTIONS,
    MAPS,
    GapChange,
    WordMap,
    accuracy,
    check_same_documents,
    gap_change,
)
from harness_ext.compare.runs import Answer, Cell, Run, read_runs, within
from harness_ext.compare.statistics import Interval
from harness_ext.errors import UsageError

ZERO_SHOT, ICL, TV = "zero-shot", "ICL", "TV"
SETTINGS: Mapping[str, tuple[str, int]] = {
    ZERO_SHOT: ("none", 0),
    ICL: ("none", 10),
    TV: ("tv", 0),
}
ARROWS = ("X→Y", "Y→X", "X↔Y")
MISSING, NO_TASK = "missing", "–"

LEGEND = """\
Share of answers that are right (`answer_match`), with 95 % intervals. ICL: 10 demonstrations in
the prompt, no steering; TV: a task vector in a zero-shot prompt; X→Y, Y→X and X↔Y: the tasks
`forward_`, `inverse_` and `bijection_` of a map (antonym is its own inverse). The gap is the mean
of the two directions minus X↔Y. A pair of words is one cluster: its queries, in both directions
and in all draws, count as dependent. Intervals are Wilson's at the effective sample size for
accuracies, and Student's t over pairs for gaps and their difference; both count one pair more than
there is, half of it at either extreme, which keeps their coverage with few pairs and near 0 and 1.
A verdict stands for its row alone: nothing is corrected for the number of rows. Layers are those
chosen on development episodes, with the accuracy on these in brackets.
"""


@dataclass(frozen=True)
class ModelRuns:
    """The runs of one model that the tables are made from, by setting; some may be missing."""

    model: str
    runs: Mapping[str, Run]

    def answered(self, setting: str, task: str) -> bool:
        """Whether the task was recorded in this setting."""
        return setting in self.runs and task in self.runs[setting].answers

    def missing(self, maps: Sequence[WordMap]) -> list[str]:
        """What is not recorded: whole settings, or single tasks of one."""
        tasks = [task for word_map in maps for task in word_map.tasks]
        found = []
        for setting, (method, shots) in SETTINGS.items():
            lacking = [task for task in tasks if not self.answered(setting, task)]
            which = "" if setting not in self.runs else f" for {', '.join(lacking)}"
            if lacking:
                found.append(f"{setting} (`method={method}`, `--num_fewshot {shots}`){which}")
        return found


def section(folder: Path, models: Sequence[str], maps: Sequence[WordMap] = MAPS) -> str:
    """The recorded results of the models as Markdown, one part for each model.

    What is not recorded is said where it would stand. Raises :class:`UsageError` naming the first
    recorded file that cannot be used, or two runs of a model that answer different documents.
    """
    runs = {run.cell: run for run in read_runs(folder)}
    parts = [LEGEND]
    for model in models:
        settings = {
            setting: runs[Cell(model, method, shots)]
            for setting, (method, shots) in SETTINGS.items()
            if Cell(model, method, shots) in runs
        }
        parts.append(_model_part(ModelRuns(model, settings), maps))
    return "\n".join(parts)


def _model_part(model: ModelRuns, maps: Sequence[WordMap]) -> str:
    missing = model.missing(maps)
    blocks = [f"### {model.model}\n"]
    if missing:
        blocks.append(f"**Not recorded:** {'; '.join(missing)}.\n")
    if model.runs:
        for task in (task for word_map in maps for task in word_map.tasks):
            answered = [run for setting, run in model.runs.items() if model.answered(setting, task)]
            check_same_documents(task, answered)
        tables = (accuracy_table, gap_table, layer_table)
        blocks += [
            facts(list(model.runs.values()), model.runs.get(TV)),
            *(table(model, maps) for table in tables),
        ]
    return "\n".join(blocks)


def accuracy_table(model: ModelRuns, maps: Sequence[WordMap] = MAPS) -> str:
    """Accuracy of each map in each setting and direction."""

    def cell(setting: str, task: str) -> str:
        if not model.answered(setting, task):
            return MISSING
        return interval(accuracy(model.runs[setting].answers[task]))

    rows = [
        (word_map.name, setting, *_each_way(word_map, partial(cell, setting)))
        for word_map in maps
        for setting in SETTINGS
    ]
    return markdown(("map", "setting", *ARROWS), rows)


def gap_table(model: ModelRuns, maps: Sequence[WordMap] = MAPS) -> str:
    """The bijection gap under ICL and with a task vector, and whether it changes."""
    head = ("map", "gap(ICL)", "gap(TV)", "gap(TV) − gap(ICL)", "verdict")
    rows = []
    for word_map in maps:
        if all(model.answered(s, task) for s in (ICL, TV) for task in word_map.tasks):
            change = gap_change(model.runs[ICL], model.runs[TV], word_map)
            rows.append((word_map.name, *_gap_cells(change)))
        else:
            rows.append((word_map.name, *[MISSING] * 4))
    return markdown(head, rows)


def layer_table(model: ModelRuns, maps: Sequence[WordMap] = MAPS) -> str:
    """What each map was tested on, and the layer chosen with its development accuracy."""

    def layer(task: str) -> str:
        return chosen_layer(model.runs[TV], task) if model.answered(TV, task) else MISSING

    def asked(task: str) -> str:
        return str(len(_tested(model, task)) or MISSING)

    def pairs(task: str) -> str:
        return str(len({answer.pair for answer in _tested(model, task)}) or MISSING)

    rows = [
        (
            word_map.name,
            pairs(word_map.both_ways),
            " / ".join(_each_way(word_map, asked)),
            *_each_way(word_map, layer),
        )
        for word_map in maps
    ]
    head = ("map", "test pairs", f"answers {' / '.join(ARROWS)}")
    return markdown((*head, *(f"layer {arrow}" for arrow in ARROWS)), rows)


def interval(value: Interval, signed: bool = False, digits: int = 2) -> str:
    """An interval such as `0.93 [0.84, 0.97]`; `signed` writes the plus of the estimate too."""
    plus = "+" if signed and round(value.estimate, digits) > 0 else ""
    ends = f"[{number(value.low, digits)}, {number(value.high, digits)}]"
    return f"{plus}{number(value.estimate, digits)} {ends}"


def number(value: float, digits: int = 2) -> str:
    """So many decimals, with a real minus sign and no negative zero."""
    return f"{round(value, digits) + 0:.{digits}f}".replace("-", "−")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with aligned columns, to be read as plain text too."""
    lines = [[cell.replace("|", r"\|") for cell in line] for line in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"| {' | '.join(map(str.ljust, line, widths))} |\n" for line in lines)


def chosen_layer(run: Run, task: str) -> str:
    """Such as `21 (0.22)`, or `21 (given)` where no layer was searched for."""
    chosen = within(run.results, "config", "steering", "tasks", task)
    if not isinstance(chosen.get("layer"), int):
        raise UsageError(
            f"{run.cell.folder}: config.steering.tasks holds no layer for {task}. Record the run "
            "again."
        )
    accuracy_there = chosen.get("development_accuracy")
    return f"{chosen['layer']} ({'given' if accuracy_there is None else number(accuracy_there)})"


def facts(runs: Sequence[Run], steered: Run | None) -> str:
    """What the runs were made with; where runs differ, their values stand side by side.

    The steering arguments are those of the steered run.
    """
    made = [_made_with(run.results) for run in runs]
    found = {name: " / ".join(dict.fromkeys(each[name] for each in made)) for name in made[0]}
    if steered is not None:
        found |= _steered_with(steered.results)
    return f"{'; '.join(f'{name} {value}' for name, value in found.items())}.\n"


def _each_way(word_map: WordMap, cell: Callable[[str], str]) -> list[str]:
    """The cells of the columns X→Y, Y→X and X↔Y."""
    names = [f"{direction}_{word_map.name}" for direction in DIRECTIONS]
    return [cell(name) if name in word_map.tasks else NO_TASK for name in names]


def _tested(model: ModelRuns, task: str) -> Sequence[Answer]:
    """The answers to a task in the first setting that has some: documents are the same in all."""
    return next((run.answers[task] for run in model.runs.values() if task in run.answers), ())


def _gap_cells(change: GapChange) -> tuple[str, ...]:
    return (
        interval(change.icl),
        interval(change.tv),
        interval(change.difference, signed=True),
        change.verdict,
    )


def _made_with(results: Mapping[str, Any]) -> dict[str, str]:
    config = results["config"]
    torch = re.search(r"PyTorch version: (\S+)", str(results.get("pretty_env_info")))
    facts = {
        "Recorded": datetime.fromtimestamp(results["date"], timezone.utc).date(),
        "few-shot seed": config.get("fewshot_seed"),
        "dtype": str(config.get("model_dtype")).removeprefix("torch."),
        "lm-eval": results.get("lm_eval_version"),
        "transformers": results.get("transformers_version"),
        "PyTorch": torch and torch[1],
    }
    return {name: str(value) for name, value in facts.items()}


def _steered_with(results: Mapping[str, Any]) -> dict[str, str]:
    arguments = within(results, "config", "steering", "arguments")
    names = {"steering seed": "seed", "demonstrations": "demos", "development episodes": "dev"}
    return {name: str(arguments.get(argument)) for name, argument in names.items()}
