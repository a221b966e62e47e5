"""`taskvec theory`: the papers' claims about toy models, measured."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness_ext.theory import Outcome

UNEXPECTED = 1


def main(argv: Sequence[str]) -> int:
    """List the checks, or run some; status 1 where a claim ended otherwise than recorded.

    Raises :class:`UsageError` for a user's mistake.
    """
    args = _parser().parse_args(argv)
    return _list(args.checks) if args.verb == "list" else _run(args)


def _list(names: Sequence[str]) -> int:
    from rich.console import Console

    from harness_ext import theory
    from harness_ext.theory import report

    if names:
        Console().print(*map(report.description, theory.select(names)))
    else:
        Console().print(report.listing(theory.CHECKS))
    return 0


def _run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from harness_ext import theory
    from harness_ext.theory import report

    checks = theory.select(args.checks)
    preset = theory.preset(args.preset, args.seeds)
    path = args.out or Path(f"taskvec-theory-{preset.name}")
    # What refuses a run comes before the folder, which is then not claimed for its settings.
    workers = theory.Workers(args.jobs, args.backend, args.address)
    workers.verify()
    for check in checks:
        check.cells(preset)
    folder = theory.RunFolder.open(path, preset, [check.name for check in checks])
    outcomes = theory.run(checks, preset, folder, workers)
    for outcome in outcomes:
        report.write(outcome, path / outcome.check.name)
    dropped = folder.save_verdicts(report.summary(outcomes, preset))
    if dropped:
        print(
            f"taskvec: verdicts of other code or packages are no longer in {path}: "
            f"{', '.join(dropped)}; run these again to have them there",
            file=sys.stderr,
        )
    Console().print(report.verdicts(outcomes))
    print(f"verdicts, figures and pictures: {path}")
    return _status(outcomes)


def _status(outcomes: Sequence[Outcome]) -> int:
    surprises = [(outcome.check, found) for outcome in outcomes for found in outcome.surprises]
    for check, found in surprises:
        expected = next(c.expected for c in check.claims if c.key == found.claim)
        print(
            f"taskvec: {check.name}: claim {found.claim} ended as {found.verdict!r}, "
            f"recorded is {expected!r}",
            file=sys.stderr,
        )
    return UNEXPECTED if surprises else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskvec theory",
        description="Check what the papers claim about linear-attention and concept models.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|run")
    listed = verbs.add_parser(
        "list",
        help="list the checks, or what the named ones claim in full",
        description="List the checks, their claims and recorded outcomes; of named checks, also "
        "each claim's source, what is measured, and the threshold with its reason.",
    )
    listed.add_argument("checks", nargs="*", metavar="CHECK", help="names of checks, or `all`")
    run = verbs.add_parser(
        "run",
        help="run checks",
        description="Run checks; an interrupted run of the same settings is continued.",
        epilog="exit status: 0 all claims ended as recorded, 1 some did not, 2 a user's mistake",
    )
    run.add_argument("checks", nargs="+", metavar="CHECK", help="names of checks, or `all`")
    run.add_argument(
        "--preset", default="quick", metavar="NAME", help="quick (minutes, the default) or paper"
    )
    run.add_argument("--seeds", type=int, metavar="N", help="seeds, instead of the check's own")
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="output folder (default: taskvec-theory-PRESET)"
    )
    run.add_argument(
        "--jobs", type=int, default=-1, metavar="N", help="processes (default: one per core)"
    )
    run.add_argument(
        "--backend",
        default="loky",
        choices=["loky", "dask", "ray"],
        help="loky: this machine (default); dask, ray: the cluster at --address",
    )
    run.add_argument("--address", metavar="URL", help="scheduler, such as tcp://host:8786")
    return parser
