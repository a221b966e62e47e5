"""Grids that are interrupted, cells that fail, and other grids in the same folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness_ext import TaskVectorLM
from harness_ext.compare.reading import read
from harness_ext.errors import UsageError
from harness_ext.grids import planning, runner
from tests.grids.conftest import Bench, contents

BROKEN = "tl,dev=2,average=2"


def test_an_interrupted_grid_leaves_whole_cells_and_goes_on(
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write, written = runner._write, []

    def interrupted(*args: Any) -> None:
        write(*args)
        written.append(args)
        if len(written) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "_write", interrupted)
        assert bench() == 130
    assert "The same command goes on from there" in capsys.readouterr().err
    (whole,) = read([tmp_path]).evaluations
    assert not [path for path in tmp_path.rglob(".*") if path.is_dir()]
    assert bench() == 0
    assert {each.path for each in read([tmp_path]).evaluations} > {whole.path}


@pytest.mark.parametrize("stage", ["preflight.check", "load_tasks", "finished"])
def test_a_grid_that_is_interrupted_while_it_is_planned_says_so(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stage: str,
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{planning.__name__}.{stage}", interrupted)
    assert bench() == 130
    assert "taskvec: interrupted; what is finished is kept" in capsys.readouterr().err


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What answering raises, last first, where the method is that of `BROKEN`."""
    errors: list[BaseException] = []
    answer = TaskVectorLM.generate_until

    def fail(self: TaskVectorLM, *args: Any, **kwargs: Any) -> list[str]:
        if self.steering.method == "tl":
            raise errors.pop()
        return answer(self, *args, **kwargs)

    monkeypatch.setattr(TaskVectorLM, "generate_until", fail)
    return errors


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UsageError("this model has no such heads"), "this model has no such heads"),
        (RuntimeError("out of\nmemory"), "RuntimeError: out of memory"),
        (ValueError("no such filter"), "ValueError: no such filter"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_cell_that_fails_is_told_in_one_line_and_the_rest_is_run(
    bench: Bench,
    broken: list[BaseException],
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    said: str,
) -> None:
    broken.append(error)
    assert bench(methods=f"{BROKEN} none") == 1
    lines = capsys.readouterr().err.split("\n")
    cell = f"forward_upper3, tl,average=2,dev=2, 0 shots, seed 1234: {said}"
    assert f"taskvec: {folder.name}, {cell}" in lines
    assert not [line for line in lines if "Traceback" in line]
    assert [each.method for each in read([tmp_path]).evaluations] == ["none"]


def test_where_a_cell_failed_is_shown_when_asked_for(
    bench: Bench, broken: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    broken.append(RuntimeError("out of memory"))
    assert bench("--traceback", methods=f"{BROKEN} none") == 1
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert "raise errors.pop()" in said


def test_a_cell_that_failed_is_run_again_and_an_interruption_still_stops(
    bench: Bench, broken: list[BaseException], tmp_path: Path
) -> None:
    broken += [KeyboardInterrupt(), RuntimeError("out of memory")]
    assert bench(methods=f"{BROKEN} none") == 1
    assert bench(methods=f"{BROKEN} none tv,dev=2,demos=3") == 130
    assert [each.method for each in read([tmp_path]).evaluations] == ["none"]


@dataclass
class Other:
    """Another grid. options: what it is run with. left: the files when it had finished."""

    options: tuple[str, ...] = ()
    left: dict[str, bytes] = field(default_factory=dict)


@pytest.fixture
def meanwhile(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Other:
    """Runs as a whole when the next grid is about to save its first cell."""
    other = Other()
    save = runner.save

    def late(*args: Any) -> None:
        monkeypatch.setattr(runner, "save", save)
        assert bench(*other.options, methods="none") == 0
        other.left = contents(tmp_path)
        save(*args)

    monkeypatch.setattr(runner, "save", late)
    return other


def test_a_cell_of_another_configuration_that_was_finished_meanwhile_is_kept(
    bench: Bench, meanwhile: Other, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meanwhile.options = ("--limit", "3")
    assert bench() == 1
    assert "holds another cell: limit is 3 there and 4 here" in capsys.readouterr().err
    after = contents(tmp_path)
    assert meanwhile.left.items() < after.items()
    assert {name.split("/")[1] for name in after.keys() - meanwhile.left.keys()} == {
        "tv,demos=3,dev=2-0shot-seed1234"
    }


def test_the_same_cell_that_was_finished_meanwhile_is_kept(
    bench: Bench, meanwhile: Other, tmp_path: Path
) -> None:
    assert bench(methods="none") == 0
    assert contents(tmp_path) == meanwhile.left != {}


def test_a_cell_that_was_finished_meanwhile_is_replaced_when_asked_for(
    bench: Bench, meanwhile: Other, tmp_path: Path
) -> None:
    meanwhile.options = ("--limit", "3")
    assert bench("--overwrite", methods="none") == 0
    assert [each.documents for each in read([tmp_path]).evaluations] == [4]


def test_where_nothing_more_can_be_written_nothing_more_is_evaluated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def full(*args: Any) -> None:
        tried.append(args)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runner, "_write", full)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        bench()
    assert len(tried) == 1


def test_a_folder_that_cannot_be_made_is_found_before_a_model_loads(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(runner, "_load", None)
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(UsageError, match=r"--output_path .* cannot be written to: No such file"):
        bench("--output_path", str(tmp_path / "new"))
