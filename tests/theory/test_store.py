from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    "content", [b"", b'{"code": "a', b"{}", b"[]", b"3", b'{"code": 1, "figures": {}}', b"\xff"]
)
def test_a_damaged_cell_is_named_and_counts_as_not_measured(content, tmp_path) -> None:
    folder = RunFolder.open(tmp_path, Preset("quick"))
    folder.save(CELL, {"square": 9})
    (file,) = (tmp_path / "squares" / "cells").iterdir()
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=f"{file.name} is damaged"):
        assert folder.load(CELL) is None
    folder.save(CELL, {"square": 9})
    assert folder.load(CELL) == {"square": 9}


def test_figures_of_another_type_are_damaged(tmp_path) -> None:
    folder = RunFolder.open(tmp_path, Preset("quick"))
    folder.save(CELL, {"square": 9})
    (file,) = (tmp_path / "squares" / "cells").iterdir()
    file.write_text(file.read_text().replace('{\n  "square": 9\n }', "9"))
    with pytest.warns(UserWarning, match="damaged"):
        assert folder.load(CELL) is None


def test_a_folder_where_a_cell_goes_is_refused(tmp_path) -> None:
    folder = RunFolder.open(tmp_path, Preset("quick"))
    (tmp_path / "squares" / "cells" / f"{CELL.key}.json").mkdir(parents=True)
    with pytest.raises(UsageError, match=f"{CELL.key}.json is a folder"):
        folder.load(CELL)


@pytest.mark.parametrize("name", ["squares", "squares/cells"])
def test_a_file_where_a_folder_goes_is_refused_before_the_folder_is_claimed(name, tmp_path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    with pytest.raises(UsageError, match=f"cannot write .*{name}: "):
        RunFolder.open(tmp_path, Preset("quick"), ["squares"])
    assert not (tmp_path / "run.json").exists()


@pytest.mark.parametrize("name", ["verdicts.json", "squares/figures.json", "squares/figure.png"])
def test_a_folder_where_a_file_goes_is_refused(name, tmp_path) -> None:
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(UsageError, match=f"{name} is a folder"):
        RunFolder.open(tmp_path, Preset("quick"), ["squares"])


@pytest.mark.parametrize("name", [".", "squares", "squares/cells"])
def test_a_folder_that_became_read_only_is_refused(name, tmp_path, monkeypatch) -> None:
    RunFolder.open(tmp_path, Preset("quick"), ["squares"])
    whole = store_module.TemporaryFile

    def read_only(dir):  # the superuser may write to any folder
        if dir == tmp_path / name:
            raise PermissionError(13, "Permission denied")
        return whole(dir=dir)

    monkeypatch.setattr(store_module, "TemporaryFile", read_only)
    with pytest.raises(UsageError, match=f"{tmp_path / name}: Permission denied"):
        RunFolder.open(tmp_path, Preset("quick"), ["squares"])


def test_verdicts_of_other_checks_are_kept_if_settings_and_code_are_the_same(tmp_path) -> None:
    folder = RunFolder.open(tmp_path, Preset("quick"))
    file = tmp_path / "verdicts.json"
    assert folder.save_verdicts({"code": "a", "checks": {"one": 1, "two": 2}}) == []
    assert folder.save_verdicts({"code": "a", "checks": {"two": 3}}) == []
    assert json.loads(file.read_text())["checks"] == {"one": 1, "two": 3}
    assert folder.save_verdicts({"code": "b", "checks": {"two": 4}}) == ["one"]
    assert json.loads(file.read_text()) == {"code": "b", "checks": {"two": 4}}
    file.write_text("{")
    assert folder.save_verdicts({"code": "b", "checks": {"one": 1}}) == []


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
    with pytest.raises(UsageError, match=f"cannot write .*{file}: interrupted"):
        store_module.write_json(file, {"a": 2})
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_number_json_has_not_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store_module.write_json(tmp_path / "a.json", {"a": float("nan")})
