"""What the command that records results says of a mistake: one line, and status 2."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness_ext.compare.record import main
from tests.compare.output import answered, write_output

Refused = Callable[..., str]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The results file of a run, with samples beside it."""
    return write_output(tmp_path / "out", answered(["forward_upper"], lambda doc: 1))


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Records the sources, and returns what is said of the mistake."""

    def run(*sources: Path) -> str:
        assert main([*map(str, sources), "--to", str(tmp_path / "to")]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        return error

    return run


def test_a_source_without_results_is_told(refused: Refused, tmp_path: Path) -> None:
    assert f"{tmp_path / 'nothing'} holds no results_*.json" in refused(tmp_path / "nothing")


@pytest.mark.parametrize("name", [5, ["tv"], {"a": 1}, False])
def test_a_name_that_is_no_text_is_told(refused: Refused, output: Path, name: Any) -> None:
    results = json.loads(output.read_text())
    results["config"]["bench"] = {"name": name}
    output.write_text(json.dumps(results))
    assert f"{output}: config.bench.name={name!r} is no text" in refused(output)


def test_runs_without_a_date_are_not_joined(refused: Refused, output: Path, tmp_path: Path) -> None:
    other = write_output(tmp_path / "other", answered(["inverse_upper"], lambda doc: 1))
    results = json.loads(other.read_text())
    del results["date"]
    other.write_text(json.dumps(results))
    assert f"{other}: date=None is not a number" in refused(output, other)


def test_a_file_in_the_place_of_the_folder_is_told(
    refused: Refused, output: Path, tmp_path: Path
) -> None:
    (tmp_path / "to").write_text("mine")
    cell = tmp_path / "to/tiny/tv-0shot-seed1234"
    said = refused(output)
    assert f"{cell} cannot be written (Not a directory). Name another folder with --to." in said
    assert (tmp_path / "to").read_text() == "mine"


def test_a_folder_that_cannot_be_written_to_is_told(
    refused: Refused, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:  # an administrator may write everywhere
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert "cannot be written (Permission denied)" in refused(output)
