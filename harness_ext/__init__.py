"""Task-vector steering inside lm-evaluation-harness.

Importing this package imports nothing else: it is imported whenever lm-eval is. Its public names
are loaded when they are asked for.
"""

__version__ = "0.1.0"

__all__ = ["Injection", "TaskVectorLM", "__version__", "inject", "task_vector"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from harness_ext.api import Injection, inject, task_vector
    from harness_ext.lm import TaskVectorLM

_MODULES = {
    "Injection": "harness_ext.api",
    "TaskVectorLM": "harness_ext.lm",
    "inject": "harness_ext.api",
    "task_vector": "harness_ext.api",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
