"""What has to be said under a leaderboard: what its rows were made with, where they differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from harness_ext.compare.board_cells import Cell
from harness_ext.compare.board_rows import Row
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.text import listed

VERSIONS = ("lm-eval", "transformers", "PyTorch", "taskvec-harness")
# What must be the same in all rows of one model; the weights in each dtype.
OF_A_MODEL = ("revision", "commit of the model", "tokenizer sha256")
WEIGHTS = "weights sha256"
# As much of a hash as tells two apart.
HASH = 12


def version_notes(rows: Mapping[Row, Sequence[Evaluation]]) -> list[str]:
    """Versions that differ among the rows, and weights that differ among the rows of a model.

    The versions of a task's definition are its own.
    """
    everything = [(row, each) for row, own in rows.items() for each in own]
    notes = [_differing(name, _facts(name, everything)) for name in VERSIONS]
    versions: dict[str, list[tuple[Row, object]]] = defaultdict(list)
    models: dict[str, list[tuple[Row, Evaluation]]] = defaultdict(list)
    for row, each in everything:
        versions[each.task].append((row, each.version))
        models[row.model].append((row, each))
    notes += [_differing(f"version of {task}", told) for task, told in versions.items()]
    for model, own in models.items():
        notes += [_differing(f"{model}: {name}", _facts(name, own)) for name in OF_A_MODEL]
        for dtype in sorted({str(each.settings.get("dtype")) for _, each in own}):
            alike = [(row, each) for row, each in own if str(each.settings.get("dtype")) == dtype]
            notes.append(_differing(f"{model}: {WEIGHTS}", _facts(WEIGHTS, alike)))
    return [note for note in notes if note]


def cell_notes(cells: Mapping[tuple[Row, str], Cell]) -> list[str]:
    """What is special about cells, each said once with the tasks and rows it is about."""
    found: dict[str, list[tuple[Row, str]]] = defaultdict(list)
    for place, cell in cells.items():
        for note in filter(None, cell.score.note.split("; ")):
            found[note].append(place)
    return [f"{_places(places)}: {note}." for note, places in found.items()]


def document_notes(cells: Mapping[tuple[Row, str], Cell]) -> list[str]:
    """The tasks that not all rows answer on the same documents."""
    sizes: dict[str, set[int]] = defaultdict(set)
    documents: dict[str, set[frozenset[str]]] = defaultdict(set)
    for (_, task), cell in cells.items():
        sizes[task].add(cell.score.documents)
        if cell.answers is not None:
            documents[task].add(frozenset(cell.answers.means))
    by_sizes: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for task, own in sizes.items():
        if len(own) > 1 or len(documents[task]) > 1:
            by_sizes[tuple(sorted(own))].append(task)
    return [
        f"Rows answer different documents of {listed(tasks)} "
        f"({' or '.join(map(str, found))} documents): their means are over different questions, "
        "and rows are compared on those they share."
        for found, tasks in by_sizes.items()
    ]


def seed_notes(cells: Mapping[tuple[Row, str], Cell]) -> list[str]:
    """The seeds that are averaged, where not all cells have the same ones."""
    rows: dict[tuple[int, ...], list[Row]] = defaultdict(list)
    for (row, _), cell in cells.items():
        if row not in rows[cell.score.seeds]:
            rows[cell.score.seeds].append(row)
    if len(rows) < 2:
        return []
    parts = (
        f"{', '.join(map(str, seeds)) or 'not told'} ({listed([row.name for row in own], 3)})"
        for seeds, own in sorted(rows.items())
    )
    return [f"Few-shot seeds differ: {'; '.join(parts)}."]


def _facts(name: str, own: Sequence[tuple[Row, Evaluation]]) -> list[tuple[Row, object]]:
    return [(row, each.facts.get(name)) for row, each in own]


def _differing(name: str, told: Sequence[tuple[Row, object]]) -> str:
    """Such as `lm-eval differs: 0.4.12 (a · tv), 0.4.13 (b · tv).`; empty where it is the same."""
    values: dict[str, list[str]] = defaultdict(list)
    for row, found in told:
        # What was not written down is no other value.
        if found is None:
            continue
        value = str(found)
        own_rows = values[value[:HASH] if name.endswith("sha256") else value]
        if row.name not in own_rows:
            own_rows.append(row.name)
    if len(values) < 2:
        return ""
    parts = (f"{value} ({listed(names, 3)})" for value, names in sorted(values.items()))
    return f"{name} differs: {'; '.join(parts)}."


def _places(places: Sequence[tuple[Row, str]]) -> str:
    rows = list(dict.fromkeys(row.name for row, _ in places))
    tasks = list(dict.fromkeys(task for _, task in places))
    return f"{listed(tasks)} of {listed(rows, 3)}"
