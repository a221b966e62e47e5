from __future__ import annotations

import os

import pytest

from harness_ext.errors import UsageError
from harness_ext.theory import Cell, Preset, RunFolder
from harness_ext.theory import store as store_module

CELL = Cell("squares", {"k": 3})


def test_figures_come_back_from_a_folder_opened_again(tmp_path) -> None:
    RunFolder.open(tmp_path, Preset("quick")).save(CELL, {"square": 9})
    assert RunFolder.open(tmp_path, Preset("quick")).load(CELL) == {"square": 9}


def test_a_cell_never_measured_has_no_figures(tmp_path) -> None:
    assert RunFolder.open(tmp_path, Preset("quick")).load(CELL) is None


def test_figures_made_by_other_code_are_not_used(tmp_path, monkeypatch) -> None:
    folder = RunFolder.open(tmp_path, Preset("quick"))
    folder.save(CELL, {"square": 9})
    monkeypatch.setattr(store_module, "code_fingerprint", lambda: "other")
    assert folder.load(CELL) is None


@pytest.mark.parametrize("other", [Preset("paper"), Preset("quick", 3)])
def test_a_folder_of_other_settings_is_refused_with_both_values(tmp_path, other) -> None:
    RunFolder.open(tmp_path, Preset("quick"))
    with pytest.raises(UsageError, match=r"other settings: .* there and .* here"):
        RunFolder.open(tmp_path, other)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write to the output folder"):
        RunFolder.open(tmp_path / "file" / "inside", Preset("quick"))


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    file = tmp_path / "a.json"
    store_module.write_json(file, {"a": 1})
    before = file.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("interrupted")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="interrupted"):
        store_module.write_json(file, {"a": 2})
    assert file.read_bytes() == before


def test_a_number_json_has_not_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store_module.write_json(tmp_path / "a.json", {"a": float("nan")})
