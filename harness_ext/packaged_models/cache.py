"""The folder of ready models: each built once, whole or not at all, and checked at every use.

Layout, under the cache folder::

    models/NAME/       what transformers loads, and manifest.json
    models/NAME.lock   held while NAME is built
    wheels/            wheels put there by hand, for machines without network; only read
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from harness_ext.errors import UsageError

from .spec import PackagedModel

log = logging.getLogger(__name__)

State = Literal["not fetched", "ready", "outdated", "damaged"]

Maker = Callable[[Path, Path], None]
"""Given a scratch folder and an empty folder, fills the latter with a model."""

# To be raised when the conversion changes what it writes: folders of another recipe are rebuilt.
RECIPE = 1

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class _Written:
    """What a file was when it was written."""

    bytes: int
    crc32: int


@dataclass(frozen=True)
class _Manifest:
    """How a model folder was made, and which files it holds, by name."""

    recipe: int
    gguf_sha256: str
    files: dict[str, _Written]


def root() -> Path:
    """The cache folder: ``TASKVEC_CACHE`` where it is set, else the user's own."""
    if chosen := os.environ.get("TASKVEC_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(user_cache_dir("taskvec-harness", appauthor=False))


def wheels_folder() -> Path:
    """Where wheels put there by hand are looked for."""
    return root() / "wheels"


def model_folder(model: PackagedModel) -> Path:
    """Where the ready model is, or will be."""
    return root() / "models" / model.name


def state(model: PackagedModel) -> State:
    """What the cache holds, judged by names and sizes of files alone."""
    folder = model_folder(model)
    if not folder.exists():
        return "not fetched"
    if damage(folder, contents=False):
        return "damaged"
    manifest = _read_manifest(folder)
    current = (RECIPE, model.gguf_sha256)
    return "ready" if (manifest.recipe, manifest.gguf_sha256) == current else "outdated"


def ensure(model: PackagedModel, make: Maker) -> Path:
    """The ready folder, built first where there is none yet, with every file checked.

    Raises:
        UsageError: a file is missing or is not what was written, or the cache cannot be written.
    """
    if state(model) in ("not fetched", "outdated"):
        with _building(model) as work:
            # Another process may have built it while this one waited for the lock.
            if state(model) in ("not fetched", "outdated"):
                _build(model, make, work)
    folder = model_folder(model)
    if problem := damage(folder):
        raise UsageError(
            f"packaged model {model.name} is damaged: {problem}. Run `taskvec models --refetch "
            f"{model.name}`, or delete the folder {folder} and run the command again."
        )
    return folder


def rebuild(model: PackagedModel, make: Maker) -> Path:
    """The ready folder, built anew; what was there stays until the new one is whole.

    Raises:
        UsageError: the cache cannot be written.
    """
    with _building(model) as work:
        _build(model, make, work)
    return model_folder(model)


def damage(folder: Path, contents: bool = True) -> str | None:
    """The first thing that differs from what was written to a model folder, or None.

    Contents are compared by CRC-32, which takes a third of the time of SHA-256 and so can be
    afforded at every load. It misses one accident in 2**32, and no checksum kept beside the files
    would stop intent.

    Args:
        folder: an existing model folder.
        contents: whether to read the files, or to compare their sizes alone.
    """
    try:
        files = _read_manifest(folder).files
    except (OSError, ValueError, KeyError, TypeError):
        return f"{folder / _MANIFEST} is missing or unreadable"
    for name, written in files.items():
        file = folder / name
        if not file.is_file():
            return f"{file} is missing"
        if (size := file.stat().st_size) != written.bytes:
            return f"{file} has {size} bytes, {written.bytes} were written"
        if contents and _crc32(file) != written.crc32:
            return f"{file} is not what was written (its checksum differs)"
    return None


@contextmanager
def _building(model: PackagedModel) -> Iterator[Path]:
    """An empty work folder beside the model's own, while no other process builds that model."""
    folder = model_folder(model)
    work = folder.with_name(f".{model.name}.work")
    lock = FileLock(folder.with_name(f"{model.name}.lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            log.info("another process is preparing %s: waiting for it", model.name)
            lock.acquire()
    except OSError as error:
        raise UsageError(
            f"cannot write to the cache folder {root()}: {error}; "
            "set TASKVEC_CACHE to a folder that can be written"
        ) from error
    try:
        # A process that was killed leaves its work folder behind.
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        lock.release()


def _build(model: PackagedModel, make: Maker, work: Path) -> None:
    """Make the model in the work folder, then move it into place."""
    scratch, ready = work / "scratch", work / "ready"
    scratch.mkdir()
    ready.mkdir()
    make(scratch, ready)
    _write_manifest(ready, model)
    folder = model_folder(model)
    if folder.exists():
        folder.rename(work / "replaced")
    ready.rename(folder)
    log.info("%s is ready in %s", model.name, folder)


def _write_manifest(folder: Path, model: PackagedModel) -> None:
    files = {
        file.name: _Written(bytes=file.stat().st_size, crc32=_crc32(file))
        for file in sorted(folder.iterdir())
    }
    manifest = _Manifest(RECIPE, model.gguf_sha256, files)
    (folder / _MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n")


def _read_manifest(folder: Path) -> _Manifest:
    """Raises OSError, ValueError, KeyError or TypeError where it is not what was written."""
    read = json.loads((folder / _MANIFEST).read_text())
    files = read["files"]
    return _Manifest(
        recipe=read["recipe"],
        gguf_sha256=read["gguf_sha256"],
        files={name: _Written(files[name]["bytes"], files[name]["crc32"]) for name in files},
    )


def _crc32(file: Path) -> int:
    value = 0
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            value = zlib.crc32(chunk, value)
    return value
