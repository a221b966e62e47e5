"""`taskvec leaderboard`: results of lm-eval as one table with intervals."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from harness_ext.commands.numbers import count
from harness_ext.commands.problems import tell
from harness_ext.compare.evaluations import Reading
from harness_ext.compare.leaderboard import Choice, Leaderboard, build, chosen
from harness_ext.compare.reading import read
from harness_ext.compare.table1 import Table1, table1
from harness_ext.compare.text import write
from harness_ext.errors import UsageError

if TYPE_CHECKING:
    from harness_ext.compare.page import HeadScores

PARTLY = 3
FORMATS = ("table", "markdown", "csv", "json", "html")
SUFFIXES = {
    ".txt": "table", ".md": "markdown", ".csv": "csv", ".json": "json", ".html": "html",
    ".htm": "html",
}  # fmt: skip
WIDTH = 100


def main(argv: Sequence[str]) -> int:
    """Print the leaderboard or write it to a file; 3 with --strict where files cannot be used.

    Raises :class:`UsageError` where there is nothing to show, and for a user's mistake.
    """
    args = _parser().parse_args(argv)
    args.command = shlex.join(["taskvec", "leaderboard", *argv])
    form = _format(args.format, args.output)
    reading, heads = _read(args.sources, with_heads=form == "html")
    tell(reading.problems)
    choice = Choice(
        models=tuple(args.models or ()),
        methods=tuple(args.methods or ()),
        tasks=tuple(args.tasks or ()),
        groups=tuple(args.group or ()),
        shots=tuple(args.shots or ()),
        seeds=tuple(args.seeds or ()),
        metric=args.metric,
        sort=args.sort,
    )
    board = build(reading, choice)
    evaluations = tuple(chosen(reading, choice))
    table = table1(evaluations)
    if form == "table" and args.output is None:
        _print(board, table, args.all_tasks)
    else:
        shown = Reading(evaluations, reading.problems)
        text = _text(form, shown, board, table, heads, args)
        if args.output is None:
            sys.stdout.write(text)
        else:
            write(args.output, text, "--output")
    return PARTLY if args.strict and any(problem.unused for problem in reading.problems) else 0


def _read(sources: Sequence[Path], with_heads: bool) -> tuple[Reading, tuple[HeadScores, ...]]:
    """All results, and what `taskvec heads` wrote where the page is to show it."""
    reading = read(sources)
    if not with_heads:
        return reading, ()
    from harness_ext.compare.page import read_heads

    heads, more = read_heads(sources)
    problems = [
        problem
        for problem in reading.problems
        # A folder that was given for its heads holds no results, and need not.
        if not any(problem.path in found.path.parents for found in heads)
    ]
    return Reading(reading.evaluations, (*problems, *more)), heads


def _format(asked: str | None, output: Path | None) -> str:
    if asked is not None:
        return asked
    if output is None:
        return "table"
    if output.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"--output {output}: its ending names no format; accepted: {', '.join(SUFFIXES)}, or "
            "any with --format."
        )
    return SUFFIXES[output.suffix.lower()]


def _print(board: Leaderboard, table: Table1 | None, all_tasks: bool) -> None:
    from rich.console import Console

    from harness_ext.compare.board_terminal import show

    show(Console(markup=False, highlight=False, emoji=False), board, table, all_tasks)


def _text(
    form: str,
    reading: Reading,
    board: Leaderboard,
    table: Table1 | None,
    heads: Sequence[HeadScores],
    args: argparse.Namespace,
) -> str:
    from harness_ext.compare import board_formats

    if form == "markdown":
        return board_formats.markdown(board, table, args.all_tasks)
    if form == "csv":
        return board_formats.as_csv(board)
    if form == "json":
        return board_formats.as_json(board, table)
    if form == "html":
        from harness_ext.commands import prompts
        from harness_ext.compare import page

        made = datetime.now(timezone.utc)
        return page.render(
            reading,
            board,
            table,
            heads=heads,
            prompt_of=prompts.rebuilder(),
            sources=args.sources,
            command=args.command,
            made=made,
        )
    return _plain_table(board, table, args.all_tasks)


def _plain_table(board: Leaderboard, table: Table1 | None, all_tasks: bool) -> str:
    import io

    from rich.console import Console

    from harness_ext.compare.board_terminal import show

    text = io.StringIO()
    show(Console(file=text, width=WIDTH, markup=False, highlight=False), board, table, all_tasks)
    return text.getvalue()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskvec leaderboard",
        description="Results of lm-eval, of this package's model and any other, as one table: "
        "models and methods as rows, tasks and means over tasks as columns, means with 95 % "
        "intervals. Where maps were run with a task vector, their bijection gaps follow.",
        epilog="Files that cannot be used are named on stderr, and the rest is shown. Exit status: "
        f"0 a table was made, {PARTLY} with --strict where a file could not be used, 2 nothing to "
        "show or a mistake in the arguments.",
    )
    parser.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="folders, searched at any depth, or results files",
    )
    patterns = "; patterns with * and ?"
    parser.add_argument("--models", nargs="+", metavar="NAME", help=f"only these{patterns}")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help=f"only these{patterns}")
    parser.add_argument("--tasks", nargs="+", metavar="NAME", help=f"only these{patterns}")
    parser.add_argument(
        "--group",
        nargs="+",
        metavar="NAME",
        help=f"only tasks of these groups, or categories such as bijection{patterns}",
    )
    parser.add_argument("--shots", nargs="+", type=count, metavar="N", help="only these")
    parser.add_argument(
        "--seeds", nargs="+", type=count, metavar="N", help="only these few-shot seeds"
    )
    parser.add_argument("--metric", help="instead of each task's usual one, such as exact_match")
    parser.add_argument(
        "--sort",
        metavar="COLUMN",
        help="a column, best first, or model, or method (default: the mean over all tasks)",
    )
    parser.add_argument(
        "--all-tasks", action="store_true", help="every task, where means alone would be shown"
    )
    parser.add_argument("--format", choices=FORMATS, help="(default: table, or by --output)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="instead of the terminal")
    parser.add_argument("--strict", action="store_true", help="fail where a file cannot be used")
    return parser
