"""Reads whatever lm-eval wrote, ours and anybody's, as evaluations.

    results_<date>.json, samples_<task>_<date>.jsonl    what lm-eval writes (--log_samples)
    results.json, samples.jsonl                         what `record` keeps of it

Nothing is raised for what a file holds: what cannot be used is told, file by file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness_ext.compare.evaluations import Evaluation, Key, Problem, Reading
from harness_ext.compare.results_files import RESULTS, read_file


def read(sources: Iterable[Path]) -> Reading:
    """Every evaluation in the sources: folders, searched at any depth, and results files.

    Of evaluations with one `key` the one of most documents is kept, of equally many the latest; the
    others are told as problems. A source
    that does not exist or holds no results file is a problem too.
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
        path
        for path in source.rglob("results*.json")
        # Folders that begin with a dot are unfinished.
        if (path.name == RESULTS or path.name.startswith("results_"))
        and not any(part.startswith(".") for part in path.relative_to(source).parts)
    )


def _nothing_in(source: Path) -> str:
    if not source.exists():
        return "there is no such file or folder."
    return "no results of lm-eval in it (results_*.json, written with --output_path)."


def _latest(evaluations: Sequence[Evaluation]) -> tuple[list[Evaluation], list[Problem]]:
    latest: dict[Key, Evaluation] = {}
    repeated: dict[tuple[Path, Path], list[Evaluation]] = defaultdict(list)
    for each in sorted(evaluations, key=_rank):
        earlier = latest.pop(each.key, None)
        if earlier is not None and earlier.path.resolve() != each.path.resolve():
            repeated[earlier.path, each.path].append(earlier)
        latest[each.key] = each
    place = {id(each): number for number, each in enumerate(evaluations)}
    kept = sorted(latest.values(), key=lambda each: place[id(each)])
    return kept, [_repeated(*paths, own) for paths, own in repeated.items()]


def _rank(evaluation: Evaluation) -> tuple[int, float, str]:
    return evaluation.documents or 0, evaluation.date, str(evaluation.path)


def _repeated(path: Path, other: Path, evaluations: Sequence[Evaluation]) -> Problem:
    first = evaluations[0]
    tasks = ", ".join(each.task for each in evaluations)
    return Problem(
        path,
        f"{tasks}: also in {other}, evaluated alike ({first.model}, {first.method}, {first.shots} "
        f"shots, few-shot seed {first.seed}) on more documents, or on as many and later. "
        "That is shown.",
        unused=False,
    )
