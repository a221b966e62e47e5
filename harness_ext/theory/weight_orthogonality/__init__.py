"""Proposition 3 of Dong et al. 2026: what Λ4 looks like at the optimum of two layers.

The risk as a function of Λ4, which decides the question, is derived in :mod:`.risk`.
"""

from harness_ext.theory.weight_orthogonality.check import FAMILY, WeightOrthogonality
from harness_ext.theory.weight_orthogonality.risk import (
    HALF,
    compare_variants,
    exact_risk,
    least_risk,
    optimal_weights,
    search,
)

__all__ = [
    "FAMILY",
    "HALF",
    "WeightOrthogonality",
    "compare_variants",
    "exact_risk",
    "least_risk",
    "optimal_weights",
    "search",
]
