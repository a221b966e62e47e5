"""Task-vector steering inside lm-evaluation-harness.

Importing this package imports nothing else: it is imported whenever Python starts.
"""

__version__ = "0.1.0"

__all__ = ["TaskVectorLM", "__version__"]


def __getattr__(name: str) -> object:
    if name == "TaskVectorLM":
        from harness_ext.lm import TaskVectorLM

        return TaskVectorLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
