"""Files that are never seen half written."""

from __future__ import annotations

import uuid
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write the file whole or not at all; its folder is made where there is none.

    Raises OSError where it cannot be written.
    """
    beside = path.with_name(f".{uuid.uuid4().hex}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        beside.write_bytes(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
