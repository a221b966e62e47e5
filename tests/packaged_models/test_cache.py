"""One build per model, whole or not at all, and every change to it noticed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness_ext.errors import UsageError
from harness_ext.packaged_models import PackagedModel, cache


def _make(scratch: Path, ready: Path) -> None:
    (scratch / "download").write_text("passing")
    (ready / "weights").write_bytes(bytes(range(256)) * 20)
    (ready / "settings").write_text("{}")


def _refuse(scratch: Path, ready: Path) -> None:
    raise AssertionError("built where nothing was to be built")


def test_a_model_is_built_at_first_use_and_only_then(tiny: PackagedModel) -> None:
    assert cache.state(tiny) == "not fetched"
    folder = cache.ensure(tiny, _make)
    assert cache.state(tiny) == "ready"
    assert cache.ensure(tiny, _refuse) == folder


def test_nothing_but_the_model_is_left_in_the_cache(tiny: PackagedModel) -> None:
    folder = cache.ensure(tiny, _make)
    assert sorted(os.listdir(folder.parent)) == ["tiny", "tiny.lock"]
    assert sorted(os.listdir(folder)) == ["manifest.json", "settings", "weights"]


def test_a_ready_model_is_used_from_a_cache_that_cannot_be_written(
    tiny: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache.ensure(tiny, _make)

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(cache, "FileLock", refuse)
    assert cache.ensure(tiny, _refuse) == folder


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("harm", [_truncate, _flip_a_bit, Path.unlink])
@pytest.mark.parametrize("name", ["weights", "settings"])
def test_a_damaged_file_is_an_error_that_names_it_and_the_cure(
    tiny: PackagedModel, harm: Callable[[Path], None], name: str
) -> None:
    folder = cache.ensure(tiny, _make)
    harm(folder / name)
    with pytest.raises(UsageError) as error:
        cache.ensure(tiny, _refuse)
    assert str(folder / name) in str(error.value)
    assert "taskvec models --refetch tiny" in str(error.value)
    assert cache.rebuild(tiny, _make) == folder
    assert cache.ensure(tiny, _refuse) == folder


@pytest.mark.parametrize(
    "manifest", [None, b"", b"{}", b"[]", b'{"files": {"weights": 3}}', b"\xff"]
)
def test_an_unreadable_list_of_files_is_damage_too(
    tiny: PackagedModel, manifest: bytes | None
) -> None:
    file = cache.ensure(tiny, _make) / "manifest.json"
    file.unlink()
    if manifest is not None:
        file.write_bytes(manifest)
    assert cache.state(tiny) == "damaged"
    with pytest.raises(UsageError, match=r"manifest\.json is missing or unreadable"):
        cache.ensure(tiny, _refuse)


def test_a_folder_of_an_earlier_conversion_is_built_anew(
    tiny: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache.ensure(tiny, _make)
    (folder / "from before").touch()
    monkeypatch.setattr(cache, "RECIPE", cache.RECIPE + 1)
    assert cache.state(tiny) == "outdated"
    assert cache.ensure(tiny, _make) == folder
    assert cache.state(tiny) == "ready"
    assert not (folder / "from before").exists()


def test_a_build_that_is_interrupted_leaves_nothing(tiny: PackagedModel) -> None:
    def fail(scratch: Path, ready: Path) -> None:
        _make(scratch, ready)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.ensure(tiny, fail)
    assert os.listdir(cache.root() / "models") == ["tiny.lock"]
    assert cache.ensure(tiny, _make).is_dir()


def test_a_refetch_that_fails_leaves_the_model_as_it_was(tiny: PackagedModel) -> None:
    folder = cache.ensure(tiny, _make)
    with pytest.raises(AssertionError):
        cache.rebuild(tiny, _refuse)
    assert cache.ensure(tiny, _refuse) == folder


def _build_slowly(model: PackagedModel) -> Path:
    def make(scratch: Path, ready: Path) -> None:
        (cache.root() / f"built by {os.getpid()}").touch()
        (ready / "first").write_text("half of it")
        time.sleep(0.5)
        (ready / "second").write_text("the rest")

    return cache.ensure(model, make)


def test_processes_that_start_at_once_build_a_model_once(tiny: PackagedModel) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        folders = pool.map(_build_slowly, [tiny] * 3, chunksize=1)
    assert len(set(folders)) == 1
    assert len(list(cache.root().glob("built by *"))) == 1
    assert cache.damage(folders[0]) is None


def _build_for_ever(model: PackagedModel) -> None:
    def make(scratch: Path, ready: Path) -> None:
        (ready / "half").touch()
        time.sleep(600)

    cache.ensure(model, make)


def test_a_process_killed_while_building_does_not_stand_in_the_way(tiny: PackagedModel) -> None:
    builder = multiprocessing.get_context("spawn").Process(target=_build_for_ever, args=(tiny,))
    builder.start()
    half = cache.root() / "models" / ".tiny.work" / "ready" / "half"
    deadline = time.monotonic() + 60
    while not half.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert builder.pid is not None
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    assert half.exists()
    folder = cache.ensure(tiny, _make)
    assert not (folder / "half").exists()


def test_a_cache_that_cannot_be_written_is_an_error_that_names_the_setting(
    tiny: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TASKVEC_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="TASKVEC_CACHE"):
        cache.ensure(tiny, _make)
