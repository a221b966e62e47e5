"""The folder of a run: its settings, and one file per measured cell, whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from harness_ext.errors import UsageError
from harness_ext.files import write_whole
from harness_ext.theory.check import Cell, Preset

VERDICTS = "verdicts.json"
"""How all checks run in a folder ended."""

CHECK_FILES = ("figures.json", "figure.svg", "figure.png")
"""What every check leaves in a folder of its own, beside its cells."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one preset; make it with :meth:`open`."""

    path: Path

    @classmethod
    def open(cls, path: Path, preset: Preset, checks: Iterable[str] = ()) -> RunFolder:
        """The folder of a run of `preset`, made where it does not exist, continued where it does.

        Raises :class:`UsageError` for a folder that cannot be written to, that has something in
        the way of what the named checks leave, or that holds a run of other settings.
        """
        settings = asdict(preset)
        file = path / "run.json"
        found = None
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)
            try:
                found = json.loads(file.read_text()) if file.exists() else None
            except ValueError as error:
                raise UsageError(
                    f"{file} is not a run's settings ({error}); name another --out"
                ) from error
        if found not in (None, settings):
            raise UsageError(
                f"the output folder {path} holds a run of other settings: "
                f"{_difference(found, settings)}; run with those, or name another --out"
            )
        folder = cls(path)
        folder.reserve(checks)
        if found is None:
            write_json(file, settings)
        return folder

    def reserve(self, checks: Iterable[str]) -> None:
        """Make sure that all a run of these checks leaves can be written.

        Raises :class:`UsageError` that names what is in the way.
        """
        _check_writable(self.path)
        files = [self.path / VERDICTS]
        for check in checks:
            folder = self.path / check
            _check_writable(folder)
            _check_writable(folder / "cells")
            files += [folder / name for name in CHECK_FILES]
        for file in files:
            _refuse_folder(file)

    def load(self, cell: Cell) -> dict[str, Any] | None:
        """The cell's figures from an earlier run; None if it was not measured by this very code.

        A damaged file counts as none, with a warning that names it. Raises :class:`UsageError` for
        a file that cannot be read or written again.
        """
        file = self._file(cell)
        _refuse_folder(file)
        try:
            content = json.loads(file.read_text())
            code, figures = content["code"], content["figures"]
            if not (isinstance(code, str) and isinstance(figures, dict)):
                raise TypeError("figures of another type")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(
                f"cannot read {file}: {error.strerror}; make it readable, delete it, or name "
                "another --out"
            ) from error
        except (ValueError, KeyError, TypeError):  # a ValueError is no JSON or no UTF-8
            warnings.warn(f"{file} is damaged; its cell is measured again", stacklevel=2)
            return None
        return figures if code == code_fingerprint() else None

    def save(self, cell: Cell, figures: Mapping[str, Any]) -> None:
        """Keep a cell's figures."""
        content = {"settings": cell.settings, "code": code_fingerprint(), "figures": figures}
        write_json(self._file(cell), content)

    def save_verdicts(self, summary: Mapping[str, Any]) -> list[str]:
        """Keep a summary, beside other checks of earlier ones by the same settings and code.

        Returns the names of checks that are dropped, other code or packages having made them.
        """
        file = self.path / VERDICTS
        before = _summary_at(file)
        same = {**before, "checks": None} == {**summary, "checks": None}
        kept = before["checks"] if same else {}
        write_json(file, {**summary, "checks": {**kept, **summary["checks"]}})
        return [] if same else [name for name in before["checks"] if name not in summary["checks"]]

    def _file(self, cell: Cell) -> Path:
        return self.path / cell.check / "cells" / f"{cell.key}.json"


def write_json(file: Path, content: Any) -> None:
    """Write JSON so that the file is never seen half written. Refuses NaN and infinities."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(file, f"{text}\n".encode())


def write_bytes(file: Path, content: bytes) -> None:
    """Write the file whole. Raises :class:`UsageError` where that is not possible."""
    with _writing(file):
        write_whole(file, content)


def _summary_at(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        found = None
    whole = isinstance(found, dict) and isinstance(found.get("checks"), dict)
    return found if whole else {"checks": {}}


def _check_writable(folder: Path) -> None:
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


def _refuse_folder(file: Path) -> None:
    if file.is_dir():
        raise UsageError(
            f"{file} is a folder, where the run keeps a file; move it away, or name another --out"
        )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write to the output folder: {path}: {error.strerror or error}; move away what "
            "is in the way, or name a folder that can be written to with --out"
        ) from error


@cache
def code_fingerprint() -> str:
    """A hash of this package's source, so that no figure outlives the code that made it."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(root.rglob("*.py")):
        digest.update(source.relative_to(root).as_posix().encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _difference(found: Any, wanted: Mapping[str, Any]) -> str:
    if not isinstance(found, dict):
        return f"{found!r} there, {dict(wanted)!r} asked for"
    names = sorted({*found, *wanted})
    return ", ".join(
        f"{name} is {_word(found.get(name))} there and {_word(wanted.get(name))} here"
        for name in names
        if found.get(name) != wanted.get(name)
    )


def _word(value: Any) -> str:
    return "the check's own" if value is None else str(value)
