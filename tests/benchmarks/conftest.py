"""The default model and prompts of `forward_upper`, shared by all benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Any

import pytest
from lm_eval.tasks import TaskManager
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness_ext import packaged_models, plugin
from harness_ext.steering.anatomy import Anatomy, dissect


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every benchmark runs on a packaged model."""
    for item in items:
        if "benchmarks" in item.path.parts:
            item.add_marker(pytest.mark.packaged)


@pytest.fixture(scope="session")
def anatomy() -> Anatomy:
    """The default packaged model."""
    model = AutoModelForCausalLM.from_pretrained(packaged_models.path()).eval()
    return dissect(model)


@pytest.fixture(scope="session")
def tokenizer():
    """The default packaged model's tokenizer."""
    return AutoTokenizer.from_pretrained(packaged_models.path())


@pytest.fixture(scope="session")
def manager() -> TaskManager:
    """lm-eval's, over this package's tasks alone."""
    return TaskManager(include_path=str(plugin.tasks_dir()), include_defaults=False)


@pytest.fixture(scope="session")
def task(manager):
    """`forward_upper`, with lm-eval's default few-shot seed."""
    task = manager.load("forward_upper")["tasks"]["forward_upper"]
    task.set_fewshot_seed(1234)
    return task


def peak_bytes(run: Callable[[], object]) -> int:
    """Most bytes that `run` holds at once beyond what was there before (torch's profiler)."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    changes = sorted(
        (event.start_ns(), event.nbytes())
        for event in profiler.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    held = most = 0
    for _, change in changes:
        held += change
        most = max(most, held)
    return most


def ratio(
    first: Callable[[], object], second: Callable[[], object], bound: float, rounds: int = 12
) -> float:
    """How many times longer `first` takes than `second`, run in turn under the same load.

    The smaller of two estimates: of the least times, which one lucky run throws off, and the median
    over rounds, which steady load throws off. More rounds come closer to the truth: they stop at
    three or more once the ratio is within `bound`, and at `rounds` in any case.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for done in range(1, rounds + 1):
        for run, taken in zip((first, second), times, strict=True):
            begin = perf_counter()
            run()
            taken.append(perf_counter() - begin)
        paired = median(a / b for a, b in zip(*times, strict=True))
        found = min(paired, min(times[0]) / min(times[1]))
        if done >= 3 and found <= bound:
            break
    return found


@contextmanager
def counting(layers: Sequence[Any]) -> Iterator[list[int]]:
    """While open, adds up tokens that pass a layer (token-layer evaluations)."""
    counts = [0]

    def note(module: Any, args: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        counts[0] += hidden.shape[0] * hidden.shape[1]

    hooks = [layer.register_forward_hook(note, prepend=True) for layer in layers]
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()
