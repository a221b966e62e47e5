"""Turns lm-eval's output into recorded results: ``python -m harness_ext.compare.record``.

What lm-eval writes with --output_path and --log_samples is kept but for what tells of the machine
and the user: folders, the description of the hardware, access tokens. Of each sample the prompt is
left out, which follows from the task. Runs of one cell over different tasks are recorded as one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness_ext.compare.evaluations import Sample
from harness_ext.compare.merge import merge
from harness_ext.compare.outputs import Output, read_output
from harness_ext.compare.reading import results_files
from harness_ext.compare.results_files import RESULTS, plain_name, read_file
from harness_ext.compare.samples_files import SAMPLES
from harness_ext.compare.text import listed
from harness_ext.errors import UsageError
from harness_ext.files import write_whole

USAGE_ERROR = 2
_DROPPED = ("upper_git_hash", "config_source", "model_name_sanitized", "token", "use_auth_token")
_VERSIONS = re.compile(r"^(?:PyTorch|Python) version: \S+", re.MULTILINE)
_PATH = re.compile(r"(?:~[^/]*/|/[^/\n]+/|[A-Za-z]:[\\/]|\\\\)[^\n]*")
_PATH_INSIDE = re.compile(r"(?<![\w.:/])~?/(?:[^\s/,;'\"]+/)+(?P<last>[^\s/,;'\"]*)")


def main(argv: Sequence[str] | None = None) -> int:
    """Record the runs found, and print where each went. Returns 2 for a user's mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m harness_ext.compare.record",
        description="Turn lm-eval's output (--output_path, --log_samples) into recorded results. "
        "Runs of one model, method and number of shots over different tasks become one.",
    )
    parser.add_argument("sources", metavar="SRC", nargs="+", type=Path, help="folder or results_*")
    parser.add_argument("--to", type=Path, required=True, help="folder of recorded results")
    args = parser.parse_args(argv)
    try:
        for folder in record(args.sources, args.to):
            print(folder)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE_ERROR
    return 0


def record(sources: Iterable[Path], to: Path) -> list[Path]:
    """Record every run found in the sources, and return the folders written.

    A source is a folder, searched at any depth, or a results file of lm-eval. Runs of one cell over
    different tasks are recorded as one, see `merge`. Nothing is written unless all runs can be
    recorded; a cell that was recorded before is replaced, by at least the same tasks.

    Raises:
        UsageError: naming the file, where a source holds no run, something of a file cannot be
            used, or two runs of a cell hold the same task or differ in more than their tasks;
            naming the folder, where recorded tasks would be lost or nothing can be written.
    """
    cells: dict[Path, dict[Path, Output]] = defaultdict(dict)
    for path in dict.fromkeys(path for source in sources for path in _results_files(source)):
        run = read_output(path)
        cells[to / run.cell.folder][path] = replace(run, results=anonymous(run.results))
    merged = {folder: merge(runs) for folder, runs in cells.items()}
    for folder, run in merged.items():
        _check_keeps(folder, run)
    for folder, run in merged.items():
        try:
            _write(folder, run)
        except OSError as error:
            raise UsageError(
                f"{folder} cannot be written ({error.strerror}). Name another folder with --to."
            ) from error
    return list(merged)


def anonymous(results: Mapping[str, Any]) -> dict[str, Any]:
    """The results file without what tells of a machine or a user.

    Of absolute paths the last part is kept, of the description of the environment the versions of
    Python and PyTorch. `model_name` becomes a plain name: that of the packaged model, the last
    part of a folder, a hub name with `__` for the slash.
    """
    kept: dict[str, Any] = _without_folders(results)
    kept["pretty_env_info"] = "\n".join(_VERSIONS.findall(str(results.get("pretty_env_info"))))
    kept["model_name"] = plain_name(str(kept.get("model_name") or ""))
    return kept


def _without_folders(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_folders(entry) for k, entry in value.items() if k not in _DROPPED}
    if isinstance(value, list):
        return [_without_folders(entry) for entry in value]
    if not isinstance(value, str):
        return value
    if _PATH.fullmatch(value):
        return re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return _PATH_INSIDE.sub(lambda path: path["last"], value)


def _results_files(source: Path) -> list[Path]:
    found, unread = results_files(source)
    for problem in unread:
        raise UsageError(str(problem))
    if not found:
        raise UsageError(
            f"{source} holds no results_*.json of lm-eval. Run lm_eval with --output_path and "
            "--log_samples, and name that folder."
        )
    return found


def _check_keeps(folder: Path, run: Output) -> None:
    """Recorded samples may be all that is left of a run, so they are not dropped by the way."""
    recorded = {each.task for each in read_file(folder / RESULTS).evaluations}
    lost = sorted(recorded - set(run.samples))
    if lost:
        raise UsageError(
            f"{folder} would lose {listed(lost)}, recorded there before and in none of these runs. "
            "Name the earlier runs too, or delete the folder to do without."
        )


def row(task: str, sample: Sample) -> dict[str, Any]:
    """A sample as a flat row: what it is compared by, without the prompt, which the task gives."""
    kept: dict[str, Any] = {"task": task, "doc_hash": sample.doc_hash, "query": sample.query}
    kept |= {"target": sample.target, "answer": sample.answer}
    if sample.answers:
        kept["answers"] = dict(sample.answers)
    if sample.cluster not in (sample.doc_hash, sample.query):
        kept["pair"] = sample.cluster
    scores = {
        name: int(score) if score.is_integer() else score for name, score in sample.scores.items()
    }
    return {**kept, **scores}


def _write(folder: Path, run: Output) -> None:
    rows = (row(task, sample) for task, samples in run.samples.items() for sample in samples)
    texts = {
        SAMPLES: "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows),
        RESULTS: json.dumps(run.results, ensure_ascii=False, indent=1) + "\n",
    }
    # Without its results file a cell counts as not recorded, so old and new files never mix.
    (folder / RESULTS).unlink(missing_ok=True)
    for name, text in texts.items():
        write_whole(folder / name, text.encode())


if __name__ == "__main__":
    sys.exit(main())
