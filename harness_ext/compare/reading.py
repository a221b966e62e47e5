"""Reads whatever lm-eval wrote, ours and anybody's, as evaluations.

    results_<date>.json, samples_<task>_<date>.jsonl    what lm-eval writes (--log_samples)
    <name>_<date>.json                                  the same with --output_path <name>.json
    results.json, samples.jsonl                         what `record` keeps of it

Nothing is raised for what a file holds: what cannot be used is told, file by file.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness_ext.compare.evaluations import Evaluation, Key, Problem, Reading
from harness_ext.compare.results_files import RESULTS, read_file
from harness_ext.compare.text import listed

# As lm-eval writes it into names of files.
_DATED = re.compile(r"_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?\.json$")


def read(sources: Iterable[Path]) -> Reading:
    """Every evaluation in the sources: folders, searched at any depth, and results files.

    Of evaluations with one `key` the one of most documents is kept, of equally many the latest; the
    others are told as problems. A source that does not exist or holds no results file is a problem
    too.
    """
    evaluations: list[Evaluation] = []
    problems: list[Problem] = []
    for source in dict.fromkeys(sources):
        paths = results_files(source)
        if not paths:
            problems.append(Problem(source, _nothing_in(source)))
        for path in paths:
            found = read_file(path)
            evaluations += found.evaluations
            problems += found.problems
    kept, repeated = _latest(evaluations)
    return Reading(tuple(kept), (*problems, *repeated))


def results_files(source: Path) -> list[Path]:
    """The results files of a source, by path: itself, or those in the folder at any depth."""
    if source.is_file():
        return [source]
    return sorted(
        Path(folder, name)
        for folder, names in _folders(source)
        for name in names
        if name == RESULTS
        or (name.startswith("results_") and name.endswith(".json"))
        or _DATED.search(name)
    )


def _folders(source: Path) -> Iterator[tuple[str, list[str]]]:
    """Each folder once, also behind links, with the names of its files."""
    seen: set[str] = set()
    for folder, inner, names in os.walk(source, followlinks=True):
        real = os.path.realpath(folder)
        # Links may lead in a circle. Folders that begin with a dot are unfinished.
        inner[:] = [] if real in seen else sorted(name for name in inner if name[0] != ".")
        if real not in seen:
            seen.add(real)
            yield folder, names


def _nothing_in(source: Path) -> str:
    if not source.exists():
        return "there is no such file or folder."
    return "no results of lm-eval in it (results_*.json, written with --output_path)."


def _latest(evaluations: Sequence[Evaluation]) -> tuple[list[Evaluation], list[Problem]]:
    latest: dict[Key, Evaluation] = {}
    repeated: dict[tuple[Path, Path], list[tuple[Evaluation, Evaluation]]] = defaultdict(list)
    for each in sorted(evaluations, key=_rank):
        earlier = latest.pop(each.key, None)
        if earlier is not None and earlier.path.resolve() != each.path.resolve():
            repeated[earlier.path, each.path].append((earlier, each))
        latest[each.key] = each
    place = {id(each): number for number, each in enumerate(evaluations)}
    kept = sorted(latest.values(), key=lambda each: place[id(each)])
    return kept, [_repeated(*paths, own) for paths, own in repeated.items()]


def _rank(evaluation: Evaluation) -> tuple[int, float, str]:
    return evaluation.documents or 0, evaluation.date, str(evaluation.path)


def _repeated(
    path: Path, other: Path, repeated: Sequence[tuple[Evaluation, Evaluation]]
) -> Problem:
    first, _ = repeated[0]
    tasks = ", ".join(each.task for each, _ in repeated)
    versions = listed(
        f"{each.task} {each.version}, there {shown.version}"
        for each, shown in repeated
        if each.version != shown.version
    )
    alike = "with another version of the task" if versions else "alike"
    return Problem(
        path,
        f"{tasks}: also in {other}, evaluated {alike} ({first.model}, {first.method}, "
        f"{first.shots} shots, few-shot seed {first.seed}) on more documents, or on as many and "
        f"later. That is shown.{f' Versions here: {versions}.' if versions else ''}",
        unused=False,
    )
