"""All checks, in the order in which they are listed and run."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import get_args

from harness_ext.errors import UsageError
from harness_ext.theory.check import Check, Preset, PresetName
from harness_ext.theory.concept_retrieval import ConceptRetrieval
from harness_ext.theory.critical_points import CriticalPoints
from harness_ext.theory.dropout_weights import DropoutWeights
from harness_ext.theory.eos_equivalence import EosEquivalence
from harness_ext.theory.layer_roles import LayerRoles
from harness_ext.theory.one_shot_equivalence import OneShotEquivalence
from harness_ext.theory.rank_one import RankOne
from harness_ext.theory.risk_ordering import RiskOrdering
from harness_ext.theory.tsla_subspace import TSLASubspace
from harness_ext.theory.weight_orthogonality import WeightOrthogonality

CHECKS: tuple[Check, ...] = (
    CriticalPoints(),
    RiskOrdering(),
    WeightOrthogonality(),
    OneShotEquivalence(),
    RankOne(),
    DropoutWeights(),
    LayerRoles(),
    EosEquivalence(),
    ConceptRetrieval(),
    TSLASubspace(),
)

ALL = "all"


def select(names: Sequence[str]) -> list[Check]:
    """The named checks in the order of :data:`CHECKS`, each once; `all` names every one.

    Raises :class:`UsageError` for an unknown name, with those nearest to it.
    """
    known = [check.name for check in CHECKS]
    for name in names:
        if name not in [*known, ALL]:
            raise UsageError(_unknown("check", name, [*known, ALL]))
    return [check for check in CHECKS if ALL in names or check.name in names]


def preset(name: str, seeds: int | None = None) -> Preset:
    """The preset of that name. Raises :class:`UsageError` for another name or fewer than 1 seed."""
    for known in get_args(PresetName):
        if name == known:
            if seeds is not None and seeds < 1:
                raise UsageError(f"--seeds is {seeds}; it must be a whole number of at least 1")
            return Preset(known, seeds)
    raise UsageError(_unknown("preset", name, get_args(PresetName)))


def _unknown(kind: str, name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"unknown {kind} {name!r}; {hint}Known: {', '.join(known)}"
