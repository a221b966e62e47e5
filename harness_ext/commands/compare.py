"""`taskvec compare`: whether results got worse."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness_ext.commands.numbers import count
from harness_ext.commands.problems import tell
from harness_ext.compare.evaluations import Evaluation, Reading
from harness_ext.compare.leaderboard import Choice, chosen
from harness_ext.compare.pairing import pair
from harness_ext.compare.reading import read
from harness_ext.compare.regression import compare
from harness_ext.compare.report import Limits, Report
from harness_ext.compare.text import write
from harness_ext.errors import UsageError

REGRESSED = 1
NOT_COMPARABLE = 2


def main(argv: Sequence[str]) -> int:
    """Compare two sides; 0 nothing is worse, 1 something is, 2 not all could be compared.

    Raises :class:`UsageError` for a user's mistake.
    """
    args = _parser().parse_args(argv)
    _check_outputs(args)
    limits = Limits(
        args.alpha, args.max_drop, _per_task(args.per_task), args.max_changed, args.allow_missing
    )
    readings = {source: read([source]) for source in (args.base, args.new)}
    tell(dict.fromkeys(problem for each in readings.values() for problem in each.problems))
    _remove_earlier(args)
    base = _side("BASE", args.base, readings[args.base], args, args.base_method)
    new = _side("NEW", args.new, readings[args.new], args, args.new_method)
    unread = sum(problem.unused for each in readings.values() for problem in each.problems)
    report = replace(compare(pair(base, new), limits, args.metric), unread=unread)
    _tell(report, args)
    if report.regressed:
        return REGRESSED
    if report.incomparable:
        accepted = " (--allow-missing accepts that)" if report.compared else ""
        print(f"taskvec: {report.incomparable}{accepted}", file=sys.stderr)
        return NOT_COMPARABLE
    return 0


def _side(
    name: str, source: Path, reading: Reading, args: argparse.Namespace, method: str | None
) -> list[Evaluation]:
    choice = Choice(
        models=tuple(args.models or ()),
        methods=(method,) if method else tuple(args.methods or ()),
        tasks=tuple(args.tasks or ()),
        shots=tuple(args.shots or ()),
        seeds=tuple(args.seeds or ()),
    )
    try:
        return chosen(reading, choice)
    except UsageError as error:
        raise UsageError(f"{name} ({source}): {error}") from error


def _outputs(args: argparse.Namespace) -> dict[str, Path]:
    named = {"--markdown": args.markdown, "--json": args.json, "--junit": args.junit}
    return {option: path for option, path in named.items() if path is not None}


def _check_outputs(args: argparse.Namespace) -> None:
    named: dict[Path, str] = {}
    for option, path in _outputs(args).items():
        other = named.setdefault(path.absolute(), option)
        if other != option:
            raise UsageError(f"{other} and {option} name one file, {path}. Give each its own.")


def _remove_earlier(args: argparse.Namespace) -> None:
    """An earlier report must not stand for a comparison that comes to none."""
    for option, path in _outputs(args).items():
        if path.is_file():
            try:
                path.unlink()
            except OSError as error:
                raise UsageError(
                    f"{option} {path}: cannot be replaced ({error.strerror})."
                ) from error


def _tell(report: Report, args: argparse.Namespace) -> None:
    from rich.console import Console

    from harness_ext.commands import prompts
    from harness_ext.compare import regression_files, regression_terminal, regression_text

    prompt_of = prompts.rebuilder()
    if args.markdown:
        text = (
            regression_text.as_markdown(report, None, prompt_of)
            if args.all_flips
            else regression_text.as_markdown(report, args.show, prompt_of, regression_text.COMMENT)
        )
        write(args.markdown, text, "--markdown")
    if args.json:
        write(args.json, regression_files.as_json(report, prompt_of), "--json")
    if args.junit:
        write(args.junit, regression_files.as_junit(report), "--junit")
    console = Console(highlight=False, markup=False, emoji=False)
    regression_terminal.show(console, report, args.show, prompt_of)


def _per_task(path: Path | None) -> dict[str, float]:
    if path is None:
        return {}
    import yaml

    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--per-task {path} cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--per-task {path} is not YAML: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(found, dict) or not found:
        raise UsageError(
            f"--per-task {path} has to hold a drop for every task or pattern, such as "
            "`bijection_*: 0.05`."
        )
    for name, drop in found.items():
        number = isinstance(drop, int | float) and not isinstance(drop, bool)
        if not isinstance(name, str) or not number or not 0 <= drop < math.inf:
            raise UsageError(f"--per-task {path}: {name}: {drop!r} is not a drop, a number ≥ 0.")
    return {name: float(drop) for name, drop in found.items()}


def _share(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share; it takes a number from 0 to 1")
    return value


def _alpha(text: str) -> float:
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text}: it takes a number between 0 and 1")
    return value


def _drop(text: str) -> float:
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a drop; it takes a number ≥ 0")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskvec compare",
        description="Whether results got worse from BASE to NEW: other models, versions, dtypes or "
        "methods, or the same again. Answers are paired by document. A task is worse where its "
        "mean drops by more than the tolerance and the drop is significant: exact McNemar test, or "
        "sign flips of clusters where queries repeat, with Holm's correction over tasks.",
        epilog="exit status: 0 nothing is worse; 1 a task is, or more answers changed than "
        "--max-changed; 2 a mistake or a defect, nothing to compare, or tasks or documents of BASE "
        "that have no like in NEW (unless --allow-missing).",
    )
    parser.add_argument("base", type=Path, metavar="BASE", help="folder or results file")
    parser.add_argument("new", type=Path, metavar="NEW", help="folder or results file")
    for name in ("models", "methods", "tasks"):
        parser.add_argument(f"--{name}", nargs="+", metavar="NAME", help="only these; * and ?")
    parser.add_argument("--base-method", metavar="NAME", help="only this one of BASE")
    parser.add_argument("--new-method", metavar="NAME", help="only this one of NEW")
    parser.add_argument("--shots", nargs="+", type=count, metavar="N", help="only these")
    parser.add_argument("--seeds", nargs="+", type=count, metavar="N", help="only these")
    parser.add_argument("--metric", help="instead of each task's usual one")
    parser.add_argument(
        "--max-drop", type=_drop, default=0.0, metavar="D", help="a mean may drop by this much"
    )
    parser.add_argument(
        "--per-task", type=Path, metavar="FILE", help="YAML or JSON: drops of tasks or patterns"
    )
    parser.add_argument(
        "--max-changed",
        type=_share,
        metavar="SHARE",
        help="share of answers that may be other texts, right or wrong (default: any)",
    )
    parser.add_argument(
        "--alpha", type=_alpha, default=0.05, metavar="P", help="of the tests (default: 0.05)"
    )
    parser.add_argument(
        "--allow-missing", action="store_true", help="accept what has no like in NEW"
    )
    parser.add_argument(
        "--show",
        type=count,
        default=3,
        metavar="N",
        help="lost and gained answers shown of each task (default: 3)",
    )
    parser.add_argument(
        "--all-flips",
        action="store_true",
        help="all of them in Markdown, however long; JSON has them anyway",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="for a pull request")
    parser.add_argument("--json", type=Path, metavar="FILE", help="for programs, with all flips")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="for continuous integration")
    return parser
