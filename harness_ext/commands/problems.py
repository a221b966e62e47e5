"""Says on stderr what is wrong with the files that a command reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from harness_ext.compare.evaluations import Problem
from harness_ext.compare.text import visible


def tell(problems: Iterable[Problem]) -> None:
    """A line for each problem; where the file is used nevertheless, that is said."""
    for problem in problems:
        kept = "" if problem.unused else " (used)"
        print(f"taskvec: {visible(str(problem))}{kept}".replace("\n", "\\n"), file=sys.stderr)
