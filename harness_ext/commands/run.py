"""`taskvec run`: lm-eval's `run`, with our model as the default and with early checks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness_ext import plugin, preflight
from harness_ext.errors import UsageError

if TYPE_CHECKING:
    from lm_eval._cli import HarnessCLI


def main(argv: Sequence[str]) -> int:
    """Evaluate with lm_eval's own arguments; `--model` is `taskvec-hf` where none is named.

    Works where Python's start-up files are switched off. Raises :class:`UsageError` for what can
    be seen to be wrong before the model loads.
    """
    from lm_eval._cli import HarnessCLI
    from lm_eval.utils import setup_logging

    setup_logging()
    cli = HarnessCLI()
    args = _parse(cli, argv)
    if preflight.settings(args).get("model") is None:
        args.model = plugin.MODEL
    plugin.activate()
    preflight.check(args)
    cli.execute(args)
    return 0


def _parse(cli: HarnessCLI, argv: Sequence[str]) -> argparse.Namespace:
    # lm-eval's public parser reads the process's own arguments.
    process = sys.argv
    sys.argv = ["lm-eval", "run", *argv]
    try:
        namespace: argparse.Namespace = cli.parse_args()
        return namespace
    except ValueError as error:  # a value that looks like JSON and is none
        raise UsageError(f"The command line cannot be read: {error}") from error
    finally:
        sys.argv = process
