"""Check `one-shot-equivalence`: an injected vector against one demonstration (Figure 4c)."""

from harness_ext.theory.one_shot_equivalence.check import OneShotEquivalence

__all__ = ["OneShotEquivalence"]
