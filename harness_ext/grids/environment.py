"""What lm-eval says of the machine with every evaluation, found out once for all of a grid.

It takes about a second each time (a list of the installed packages, and git), and a grid has
hundreds of evaluations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from lm_eval import evaluator
from torch.utils import collect_env

_ASKED: tuple[tuple[Any, str], ...] = (
    (collect_env, "get_pretty_env_info"),
    (evaluator, "get_git_commit_hash"),
)


@contextmanager
def described_once() -> Iterator[None]:
    """While open, lm-eval describes the environment as it was at the first evaluation."""
    with ExitStack() as stack:
        for module, name in _ASKED:
            function = getattr(module, name)
            setattr(module, name, cache(function))
            stack.callback(setattr, module, name, function)
        yield
