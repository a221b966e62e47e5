"""Means of findings of which some may not exist."""

import math

from harness_ext.analysis.means import mean_of_known


def test_only_what_is_there_and_finite_counts() -> None:
    assert mean_of_known([1.0, None, 2.0, math.nan, math.inf]) == 1.5


def test_of_nothing_there_is_no_mean() -> None:
    assert mean_of_known([None, math.nan]) is None
