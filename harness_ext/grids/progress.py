"""How far a grid is: a bar with the time left, or a line per cell where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from harness_ext.grids.planning import Plan
from harness_ext.grids.runner import Done

_OLDEST_SPEED = 3600.0


@contextmanager
def shown(plan: Plan, console: Console, first: bool) -> Iterator[Callable[[Done], None]]:
    """Gives what is to be called for every cell that was run.

    first: whether this is the first process, the only one that shows anything. The time left is
    that of the prompts left, at the speed of those read so far.
    """
    if not first:
        yield lambda done: None
        return
    cells, total = len(plan.cells), sum(plan.costs[cell].work for cell in plan.todo)
    count = len(plan.finished)
    bar = Progress(
        TextColumn("{task.fields[cells]} cells"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} % of the work,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        speed_estimate_period=_OLDEST_SPEED,
        disable=not console.is_terminal,
    )
    with bar:
        shown_as = bar.add_task("", total=total, cells=f"{count} of {cells}")

        def advance(done: Done) -> None:
            nonlocal count
            count += 1
            bar.update(shown_as, advance=plan.costs[done.cell].work, cells=f"{count} of {cells}")
            if not console.is_terminal:
                console.print(f"{count} of {cells}: {_line(done)}", soft_wrap=True, markup=False)
            else:
                bar.console.print(escape(_line(done)), highlight=False)

        yield advance


def _line(done: Done) -> str:
    scores = ", ".join(f"{name} {score:.3f}" for name, score in done.scores.items())
    return f"{done.cell.model.name}, {done.cell}: {done.error or scores}"
