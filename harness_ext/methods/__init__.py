"""The steering methods, by the name `method=` gives them; `none` steers by ablation alone."""

from __future__ import annotations

from collections.abc import Mapping

from harness_ext.methods.ablated import Ablated
from harness_ext.methods.base import AtCues, Bench, Memory, Method
from harness_ext.methods.head_vector import HeadVector, RandomHeadVector
from harness_ext.methods.task_vector import (
    MultipleTaskVectors,
    SinglePromptTaskVectors,
    TaskVector,
)

REGISTRY: Mapping[str, type[Method]] = {
    "none": Ablated,
    "tv": TaskVector,
    "tv_m": MultipleTaskVectors,
    "tv_ms": SinglePromptTaskVectors,
    "tr": HeadVector,
    "tl": HeadVector,
    "ih": HeadVector,
    "random": RandomHeadVector,
}

__all__ = ["REGISTRY", "AtCues", "Bench", "Memory", "Method"]
