"""The folder of a run: its settings, and one file per measured cell, whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell, Preset


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one preset; make it with :meth:`open`."""

    path: Path

    @classmethod
    def open(cls, path: Path, preset: Preset) -> RunFolder:
        """The folder of a run of `preset`, made where it does not exist, continued where it does.

        Raises :class:`UsageError` for a folder that cannot be written to or that holds a run of
        other settings.
        """
        settings = asdict(preset)
        file = path / "run.json"
        try:
            path.mkdir(parents=True, exist_ok=True)
            found = json.loads(file.read_text()) if file.exists() else None
            if found is None:
                write_json(file, settings)
        except OSError as error:
            raise UsageError(
                f"cannot write to the output folder {path}: {error.strerror}; "
                "name a folder that can be written to with --out"
            ) from error
        except ValueError as error:
            raise UsageError(
                f"{file} is not a run's settings ({error}); name another --out"
            ) from error
        if found not in (None, settings):
            raise UsageError(
                f"the output folder {path} holds a run of other settings: "
                f"{_difference(found, settings)}; run with those, or name another --out"
            )
        return cls(path)

    def load(self, cell: Cell) -> dict[str, Any] | None:
        """The cell's figures from an earlier run; None if it was not measured by this very code."""
        file = self._file(cell)
        if not file.exists():
            return None
        content = json.loads(file.read_text())
        return content["figures"] if content["code"] == code_fingerprint() else None

    def save(self, cell: Cell, figures: Mapping[str, Any]) -> None:
        """Keep a cell's figures."""
        content = {"settings": cell.settings, "code": code_fingerprint(), "figures": figures}
        write_json(self._file(cell), content)

    def _file(self, cell: Cell) -> Path:
        return self.path / cell.check / "cells" / f"{cell.key}.json"


def write_json(file: Path, content: Any) -> None:
    """Write JSON so that the file is never seen half written. Refuses NaN and infinities."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(file, f"{text}\n".encode())


def write_bytes(file: Path, content: bytes) -> None:
    """Write beside the file, then rename, making folders as needed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}.part")
    beside.write_bytes(content)
    os.replace(beside, file)


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
