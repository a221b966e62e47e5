"""Synthetic checks of what the papers prove or claim, on their own toy models.

Each check measures its claims, runs a negative control for each, and ends in `holds`, `does not
hold` or `inconclusive`. Importable on its own: nothing here needs the rest of the package.
"""

from harness_ext.theory.check import Cell, Check, Claim, Finding, Preset, Verdict, verdict
from harness_ext.theory.checks import CHECKS, preset, select
from harness_ext.theory.runner import Outcome, Workers, run
from harness_ext.theory.store import RunFolder

__all__ = [
    "CHECKS",
    "Cell",
    "Check",
    "Claim",
    "Finding",
    "Outcome",
    "Preset",
    "RunFolder",
    "Verdict",
    "Workers",
    "preset",
    "run",
    "select",
    "verdict",
]
