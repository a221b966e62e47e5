"""Proposition 5 of Dong et al. 2026: task vectors as redundancy against token dropout.

The derivation of the right coefficients is in :mod:`.quartic`.
"""

from harness_ext.theory.dropout_weights.check import DropoutWeights
from harness_ext.theory.dropout_weights.optimum import (
    best_weights,
    degenerate_from,
    identity_stable_from,
)
from harness_ext.theory.dropout_weights.quartic import (
    Coefficients,
    derived,
    enumerated,
    printed,
    quartic,
    simulated,
)
from harness_ext.theory.dropout_weights.value import least_one_descent_risk, train

__all__ = [
    "Coefficients",
    "DropoutWeights",
    "best_weights",
    "degenerate_from",
    "derived",
    "enumerated",
    "identity_stable_from",
    "least_one_descent_risk",
    "printed",
    "quartic",
    "simulated",
    "train",
]
