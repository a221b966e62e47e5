"""Check `critical-points`: where the risk is stationary, and where free training ends."""

from harness_ext.theory.critical_points.check import CriticalPoints

__all__ = ["CriticalPoints"]
