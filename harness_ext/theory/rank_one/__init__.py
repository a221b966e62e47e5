"""Proposition 4 of Dong et al. 2026: a rank-one map cannot go both ways, one pair excepted.

The least error and the bound on cosines are derived in :mod:`.algebra`; :mod:`.model` has the
linear model on tasks that swap the x and y of a pair.
"""

from harness_ext.theory.rank_one.algebra import (
    best_cosine,
    cosine_bound,
    least_error,
    least_error_formula,
)
from harness_ext.theory.rank_one.check import RankOne
from harness_ext.theory.rank_one.model import answer_cosines

__all__ = [
    "RankOne",
    "answer_cosines",
    "best_cosine",
    "cosine_bound",
    "least_error",
    "least_error_formula",
]
