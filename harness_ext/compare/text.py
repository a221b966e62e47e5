"""Text from files as it is shown: nothing in it can act, hide or reorder, or fill the page.

And text as it is written: in files that users name, and in encodings that lack some of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from harness_ext.errors import UsageError
from harness_ext.files import write_whole

# Controls, format characters (among them those that turn the direction of writing), separators of
# lines and paragraphs, halves of characters, characters of private use or of no use yet.
_SHOWN_AS_CODES = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}
# Joins emoji to one; alone it shows nothing and does nothing.
_KEPT = {"\n", "\u200d"}
_ELLIPSIS = "…"
# A path from the root, a home folder or a drive, of at least two parts; the last is kept.
_ABSOLUTE = re.compile(r"(?<![\w/.:])(?:~?/|[A-Za-z]:[\\/])[^\s,;()'\"]*[\\/]([^\s,;()'\"\\/]+)")

# Signs of this package's own texts beyond ASCII. Those that stand in tables keep their width.
_SPELLED = {
    "–": "-", "−": "-", "·": "-", "→": ">", "↔": "=", "×": "x", "…": "...", "≥": ">=",
}  # fmt: skip


def visible(text: str) -> str:
    """The text with every character that cannot be seen written as its code, such as \\u202e."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def clip(text: str, limit: int = 120) -> str:
    """At most `limit` characters, with an ellipsis where the middle is left out."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}{_ELLIPSIS}{text[len(text) - (limit - 1 - head) :]}"


def clip_start(text: str, limit: int) -> str:
    """At most the last `limit` characters, with an ellipsis where the start is left out."""
    return text if len(text) <= limit else _ELLIPSIS + text[len(text) - limit + 1 :]


def number(value: float, digits: int = 2, signed: bool = False) -> str:
    """So many decimals, with a real minus sign and no negative zero; `signed` writes the plus."""
    rounded = round(value, digits) + 0
    return f"{rounded:{'+' if signed and rounded else ''}.{digits}f}".replace("-", "−")


def count(amount: int, noun: str) -> str:
    """Such as `1 model` and `3 models`."""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def listed(values: Iterable[object], most: int = 6) -> str:
    """The different values in their order, such as `0, 1, 2`, and how many more there are."""
    texts = list(dict.fromkeys(map(str, values)))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def spelled(error: UnicodeError) -> tuple[str, int]:
    """For :func:`codecs.register_error`: what an encoding lacks, in ASCII, or as codes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    codes = (each.encode("ascii", "backslashreplace").decode() for each in lacking)
    return "".join(map(_SPELLED.get, lacking, codes)), error.end


def write(path: Path, text: str, option: str) -> None:
    """Write a text that the user wants in a file, whole; `option` is the argument that named it.

    Halves of surrogate pairs, which answers may hold, are written as codes. Raises
    :class:`UsageError` where the file cannot be written.
    """
    data = text.encode(errors="backslashreplace")
    try:
        if path.exists() and not path.is_file():  # such as /dev/stdout
            path.write_bytes(data)
        else:
            path.resolve().parent.stat()  # a folder that is not there is a slip of the user's
            write_whole(path.resolve(), data)
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written ({error.strerror}).") from error


class Places:
    """Names of files as a reader elsewhere understands them: from the last folder given on."""

    def __init__(self, sources: Sequence[Path]) -> None:
        # The longest first: of a folder in another, the inner one names the file.
        self._sources = sorted(sources, key=lambda source: -len(source.parts))

    def name(self, path: Path) -> str:
        """The file's name, without where the folders that were given stand on this machine."""
        for source in self._sources:
            if path == source or source in path.parents:
                return str(PurePath(source.name, path.relative_to(source)))
        return str(path) if not path.is_absolute() else path.name

    def in_text(self, text: str) -> str:
        """The text with files named as `name` names them, and others by their last part."""
        for source in self._sources:
            if source.is_absolute():
                text = text.replace(str(source), source.name)
        return _ABSOLUTE.sub(rf"{_ELLIPSIS}/\1", text)


def _visible_character(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _SHOWN_AS_CODES:
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
