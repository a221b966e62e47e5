from __future__ import annotations

from dataclasses import replace

import pytest

from harness_ext.commands import bench
from harness_ext.commands.prompts import rebuilder
from harness_ext.compare.evaluations import Evaluation, Sample
from harness_ext.compare.reading import read
from harness_ext.compare.record import record
from tests.models import save_tiny

TASKS = ("bijection_past", "classify_topic_symbol_labels")


@pytest.fixture(scope="module")
def read_pairs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Evaluation, Sample, Sample]]:
    """Samples of a three-shot run with seed 5, as lm-eval wrote them and as they were recorded."""
    folder = tmp_path_factory.mktemp("runs")
    tiny = save_tiny(folder / "model", "llama", "split")
    grid = ("--methods", "none", "--shots", "3", "--seeds", "5", "--limit", "3")
    options = ("--models", str(tiny), "--tasks", *TASKS, "--output_path", str(folder / "out"))
    assert bench.main([*grid, *options]) == 0
    record([folder / "out"], folder / "kept")
    before, after = (read([folder / name]).evaluations for name in ("out", "kept"))
    by_task = {each.task: each for each in after}
    return [
        (by_task[one.task], kept, sample)
        for one in before
        for sample, kept in zip(one.samples or (), by_task[one.task].samples or (), strict=True)
    ]


def test_a_rebuilt_prompt_is_the_one_that_was_asked(
    read_pairs: list[tuple[Evaluation, Sample, Sample]],
) -> None:
    prompt_of = rebuilder()
    assert len(read_pairs) == 6
    for evaluation, kept, sample in read_pairs:
        assert kept.prompt is None
        assert sample.prompt and sample.prompt.count("\n") >= 3
        assert prompt_of(evaluation, kept) == sample.prompt


def test_what_is_not_known_has_no_prompt(
    read_pairs: list[tuple[Evaluation, Sample, Sample]],
) -> None:
    evaluation, kept, _ = read_pairs[0]
    prompt_of = rebuilder()
    assert prompt_of(replace(evaluation, task="hellaswag"), kept) is None
    assert prompt_of(evaluation, replace(kept, doc_hash="0123456789abcdef")) is None
    assert prompt_of(replace(evaluation, seed=None), kept) is None
    assert prompt_of(replace(evaluation, facts={"chat template": True}), kept) is None
