"""Reads whatever lm-eval wrote, ours and anybody's, as evaluations.

    results_<date>.json, samples_<task>_<date>.jsonl    what lm-eval writes (--log_samples)
    <name>_<date>.json                                  the same with --output_path <name>.json
    results.json, samples.jsonl                         what `record` keeps of it

Nothing is raised for what a file holds: what cannot be used is told, file by file.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness_ext.compare.evaluations import STEERING_SEED, Evaluation, Key, Problem, Reading
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
    seen: set[Path] = set()
    for source in dict.fromkeys(sources):
        paths, unread = results_files(source)
        problems += unread
        if not paths and not unread:
            problems.append(Problem(source, _nothing_in(source)))
        for path in paths:
            real = path.resolve()
            if real in seen:
                continue
            seen.add(real)
            found = read_file(path)
            evaluations += found.evaluations
            problems += found.problems
    kept, repeated = _latest(evaluations)
    return Reading(tuple(_by_steering_seed(kept)), (*problems, *repeated))


def results_files(source: Path) -> tuple[list[Path], list[Problem]]:
    """The results files of a source, itself or those in the folder at any depth, links last.

    And the folders that cannot be looked into.
    """
    if source.is_file():
        return [source], []
    unread: list[Problem] = []
    found = [
        Path(folder, name)
        for folder, names in _folders(source, unread)
        for name in names
        if name == RESULTS
        or (name.startswith("results_") and name.endswith(".json"))
        or _DATED.search(name)
    ]
    # The samples are beside the file itself.
    return sorted(found, key=lambda path: (path.is_symlink(), path)), unread


def _folders(source: Path, unread: list[Problem]) -> Iterator[tuple[str, list[str]]]:
    """Each folder once, also behind links, with the names of its files."""

    def tell(error: OSError) -> None:
        if source.exists():
            unread.append(Problem(Path(error.filename), f"cannot be read ({error.strerror})."))

    seen: set[str] = set()
    for folder, inner, names in os.walk(source, onerror=tell, followlinks=True):
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
        if earlier is not None:
            repeated[earlier.path, each.path].append((earlier, each))
        latest[each.key] = each
    place = {id(each): number for number, each in enumerate(evaluations)}
    kept = sorted(latest.values(), key=lambda each: place[id(each)])
    return kept, [_repeated(*paths, own) for paths, own in repeated.items()]


def _rank(evaluation: Evaluation) -> tuple[int, float, bool, str]:
    has_samples = evaluation.samples is not None
    return evaluation.documents or 0, evaluation.date, has_samples, str(evaluation.path)


def _by_steering_seed(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Where seeds of steering are all that differs, they are a setting."""
    keys = [replace(each, facts={}).key for each in evaluations]
    times = Counter(keys)
    return [
        replace(each, settings={**each.settings, STEERING_SEED: each.facts[STEERING_SEED]})
        if STEERING_SEED in each.facts and times[key] > 1
        else each
        for key, each in zip(keys, evaluations, strict=True)
    ]


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
