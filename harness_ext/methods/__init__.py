"""The steering methods, by the name `method=` gives them."""

from __future__ import annotations

from collections.abc import Mapping

from harness_ext.methods.base import Bench, Memory, Method
from harness_ext.methods.task_vector import (
    MultipleTaskVectors,
    SinglePromptTaskVectors,
    TaskVector,
)

REGISTRY: Mapping[str, type[Method]] = {
    "tv": TaskVector,
    "tv_m": MultipleTaskVectors,
    "tv_ms": SinglePromptTaskVectors,
}

__all__ = ["REGISTRY", "Bench", "Memory", "Method"]
