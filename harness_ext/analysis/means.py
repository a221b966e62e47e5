"""Means of findings of which some may not exist."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean of those that are there and finite; None where none is."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.fmean(known) if known else None
