"""Says on stderr what is wrong with the files that a command reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from harness_ext.compare.evaluations import Problem
from harness_ext.compare.text import visible


def tell(problems: Iterable[Problem]) -> None:
    """A line for each problem; what leaves nothing out that is wanted is said to be no error."""
    for problem in problems:
        kept = "" if problem.unused else " (not an error)"
        print(f"taskvec: {visible(str(problem))}{kept}".replace("\n", "\\n"), file=sys.stderr)
