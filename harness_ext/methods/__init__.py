"""The steering methods, by the name `method=` gives them."""

from __future__ import annotations

from collections.abc import Mapping

from harness_ext.methods.base import Bench, Method
from harness_ext.methods.task_vector import TaskVector

REGISTRY: Mapping[str, type[Method]] = {"tv": TaskVector}

__all__ = ["REGISTRY", "Bench", "Method"]
