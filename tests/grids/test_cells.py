from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest
from filelock import FileLock

from harness_ext.errors import UsageError
from harness_ext.grids.cells import Cell, finished, save
from harness_ext.grids.grid import Method, Model


@pytest.fixture
def cell() -> Cell:
    method = Method("none", {"method": "none"}, (0,), (1,), ("task",))
    return Cell(Model("model", {}), method, 0, 1, "task", None, "", {})


def write(place: Path) -> None:
    (place / "results_1.json").write_text("{}")


def test_a_cell_is_put_in_its_place_while_no_other_is(cell: Cell, tmp_path: Path) -> None:
    saving = Thread(target=save, args=(tmp_path, cell, write))
    with FileLock(tmp_path / ".lock"):
        saving.start()
        saving.join(0.3)
        assert saving.is_alive()
        assert not (tmp_path / cell.folder).exists()
    saving.join(30)
    assert (tmp_path / cell.folder / "results_1.json").exists()


def test_files_that_came_meanwhile_are_refused_and_kept(cell: Cell, tmp_path: Path) -> None:
    place = tmp_path / cell.folder
    place.mkdir(parents=True)
    (place / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds notes.txt, which `taskvec bench` did not write"):
        save(tmp_path, cell, write)
    assert [path.name for path in place.parent.rglob("*")] == ["task", "notes.txt"]


def test_a_file_in_the_place_of_a_cell_is_refused(cell: Cell, tmp_path: Path) -> None:
    place = tmp_path / cell.folder
    place.parent.mkdir(parents=True)
    place.write_text("mine")
    with pytest.raises(UsageError, match=r"task, where a cell is to be kept, is a file"):
        finished(tmp_path, cell)
