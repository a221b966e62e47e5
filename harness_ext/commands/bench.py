"""`taskvec bench`: a grid of models, methods, tasks, shots and seeds."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness_ext.grids.planning import Plan

FAILED = 1
INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Run a grid, or show it; status 1 where cells could not be evaluated.

    Raises :class:`UsageError` for a user's mistake.
    """
    args = _parser().parse_args(argv)
    first = int(os.environ.get("RANK", 0)) == 0
    try:
        return _bench(args, first)
    except KeyboardInterrupt:
        if first:
            print(
                "\ntaskvec: interrupted; what is finished is kept. The same command goes on from "
                "there.",
                file=sys.stderr,
            )
        return INTERRUPTED


def _bench(args: argparse.Namespace, first: bool) -> int:
    """The exit status; first: whether this is the first process, which alone says something."""
    # lm-eval's own bars, one for each cell and step, would write over ours.
    os.environ["TQDM_DISABLE"] = "1"
    from rich.console import Console

    from harness_ext.grids import grid_file, planning, report

    line = {name: getattr(args, name) for name in (*grid_file.LISTS, *grid_file.SETTINGS)}
    grid = grid_file.read_grid(args.grid, line)
    plan = planning.plan(grid, args.output_path, args.overwrite)
    if args.dry_run:
        Console().print(report.grid_table(plan))
        return 0
    failed = _run(plan, args, first)
    if not first:
        # A launcher ends all processes once one has failed, and the first has yet to report.
        return 0
    Console().print(report.scores_table(plan.cells, args.output_path))
    print(f"results and samples: {args.output_path}")
    return FAILED if failed else 0


def _run(plan: Plan, args: argparse.Namespace, first: bool) -> bool:
    """Run what is left; whether a cell of it could not be evaluated."""
    from rich.console import Console

    from harness_ext.grids import progress, runner
    from harness_ext.grids.cells import make, remove_unfinished

    console = Console(stderr=True)
    _log_to(console)
    runner.log.setLevel(logging.DEBUG if args.traceback else logging.NOTSET)
    make(args.output_path)
    if first:
        remove_unfinished(args.output_path)
    errors = []
    with progress.shown(plan, console, first) as advance:
        for done in runner.run(
            plan.grid, plan.todo, args.output_path, plan.manager, args.overwrite
        ):
            advance(done)
            if done.error:
                errors.append(done)
    if first:
        for done in errors:
            print(f"taskvec: {done.cell.model.name}, {done.cell}: {done.error}", file=sys.stderr)
    return bool(errors)


def _log_to(console: Any) -> None:
    """Show warnings, above the progress bar; lm-eval's account of every step is left out."""
    from rich.logging import RichHandler

    handler = RichHandler(console=console, show_time=False, show_path=False)
    handler.addFilter(lambda record: not record.getMessage().startswith(_EVERY_CELL))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True, format="%(message)s")
    logging.getLogger("lm_eval").setLevel(logging.WARNING)


_EVERY_CELL = ("Overwriting default num_fewshot", "Truncating", "num_fewshot has been set to 0")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskvec bench",
        description="Evaluate a grid of models, methods, tasks, shots and seeds. Every cell is "
        "written as it finishes, in lm-eval's own format; the same command goes on where it was "
        "stopped.",
        epilog="exit status: 0 all cells are there, 1 some could not be evaluated, 2 a user's "
        "mistake, 130 interrupted",
    )
    parser.add_argument(
        "grid",
        nargs="?",
        type=Path,
        metavar="GRID.yaml",
        help="the grid; options replace its lists",
    )
    parser.add_argument("--output_path", type=Path, required=True, metavar="DIR", help="results")
    lists = (
        ("models", str, "MODEL", "NAME or pretrained=NAME,dtype=bfloat16 and the like"),
        ("methods", str, "METHOD", "such as none, tv, or tr,head_fraction=0.1"),
        ("tasks", str, "TASK", "tasks, groups or patterns"),
        ("shots", int, "N", "demonstrations in the tested prompt (default: 0)"),
        ("seeds", int, "N", "of episodes and few-shot examples (default: 1234)"),
    )
    for name, kind, metavar, text in lists:
        parser.add_argument(f"--{name}", nargs="+", type=kind, metavar=metavar, help=text)
    parser.add_argument(
        "--limit", type=_number, metavar="N|SHARE", help="tested documents of a task"
    )
    parser.add_argument("--batch_size", metavar="N|auto", help="as lm_eval takes it (default: 1)")
    parser.add_argument("--include_path", metavar="DIR", help="your own tasks")
    parser.add_argument(
        "--overwrite", action="store_true", help="evaluate cells again that are there already"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the grid and what it costs; run nothing"
    )
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="show where in the code a cell failed, not only its error",
    )
    return parser


def _number(text: str) -> int | float:
    try:
        return float(text) if "." in text or "e" in text.lower() else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None
