"""Axes that read well, for all pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


def whole_numbers(axes: Axes) -> None:
    """Ticks of both axes at whole numbers only, as positions in a matrix are."""
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def plain_logarithmic(axis: Axis) -> None:
    """Label a logarithmic axis of one or two decades with plain numbers, 1, 2 and 5 in each."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
