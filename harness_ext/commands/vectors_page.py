"""How `taskvec vectors show` prints a file's summary for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from harness_ext.steering.vector_file import Header, VectorFile, is_sum

if TYPE_CHECKING:
    from harness_ext.commands.vectors import Summary, Token

WIDEST_MATRIX = 10
"""Cues up to which the table of cosines fits into 80 columns."""


def show(console: Console, shown: Summary) -> None:
    """Print a summary, within 80 columns where the console has no more."""
    console.print(_printable(str(shown.path)), soft_wrap=True)
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, fact in _facts(shown.file):
        facts.add_row(f"  {name}", fact)
    console.print(facts, "", _cue_table(shown), "", sep="\n")
    cues = len(shown.norms)
    if 1 < cues <= WIDEST_MATRIX:
        console.print(_cosine_table(shown), "", sep="\n")
    elif cues > WIDEST_MATRIX:
        others = [shown.cosine[i][j] for i in range(cues) for j in range(i)]
        console.print(
            f"cosine between cues: {min(others):.2f} to {max(others):.2f} (--json prints all)\n"
        )
    if shown.problem:
        console.print(f"no nearest tokens: {_printable(shown.problem)}\n")


def _facts(file: VectorFile) -> Iterator[tuple[str, str]]:
    header = file.header
    items, cues, width = file.vectors.shape
    yield "made by", f"taskvec {_printable(header.version)}"
    revision = f", revision {header.revision}" if header.revision else ""
    yield "model", _printable(f"{header.model}{revision}, {header.dtype}")
    for name, value in header.fingerprint.items():
        yield _printable(name), _printable(f"{value[:12]}…" if is_sum(value) else value)
    yield "task", _printable(f"{header.task}, {header.shots}-shot prompts")
    strength = "" if header.strength is None else f", strength {header.strength:g}"
    yield (
        "method",
        _printable(f"{header.method}, layer {header.layer}, mode {header.mode}{strength}"),
    )
    yield "vectors", f"{items} × {cues} × {width} (items × cues × width), {_whose(header)}"
    yield "draws", f"demos={header.demos} queries={header.queries} seed={header.seed}"
    for name in ("chosen_by", "development_accuracy", "development_episodes", "warning"):
        if (found := header.record.get(name)) is not None:
            yield name.replace("_", " "), _printable(str(found))
    for name, setting in header.template.items():
        if setting is not None:
            yield _printable(name), _printable(repr(setting))


def _whose(header: Header) -> str:
    if header.documents is None:
        return f"reusable: the mean of {header.average} episodes"
    return "one for each tested document"


def _cue_table(shown: Summary) -> Table:
    several = len(shown.file.vectors) > 1
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("cue", no_wrap=True)
    for name in ("norm (± sd)", "min", "max") if several else ("norm",):
        table.add_column(name, justify="right", no_wrap=True)
    if shown.tokens is not None:
        of = " of the mean" if several else ""
        table.add_column(f"nearest output tokens{of} (probability)", overflow="fold")
    for cue, norms in enumerate(shown.norms):
        row = [_cue_name(cue, len(shown.norms)), f"{norms.mean:.2f}"]
        if norms.sd is not None:
            row[1] += f" ± {norms.sd:.2f}"
            row += [f"{norms.min:.2f}", f"{norms.max:.2f}"]
        if shown.tokens is not None:
            row.append("  ".join(map(_token, shown.tokens[cue])))
        table.add_row(*row)
    return table


def _token(token: Token) -> str:
    """Text and probability without a blank, where the line could break."""
    # Parts of characters all decode to the same mark; their ids tell them apart.
    which = f"#{token.id}" if "\ufffd" in token.text else ""
    return f"{visible(token.text)}{which}({token.probability:.3f})"


def _cosine_table(shown: Summary) -> Table:
    cues = len(shown.norms)
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("cosine", no_wrap=True)
    for cue in range(cues):
        table.add_column(_cue_name(cue, cues), justify="right", no_wrap=True)
    for cue, row in enumerate(shown.cosine):
        table.add_row(_cue_name(cue, cues), *(f"{value:.2f}" for value in row))
    return table


def _cue_name(cue: int, cues: int) -> str:
    """Cues count from 1; the last is the query's."""
    return "query" if cue == cues - 1 else str(cue + 1)


def visible(text: str) -> str:
    """The text on one line, without blanks: spaces as ␣, control characters as in Python."""
    escaped = text.replace("\\", "\\\\").replace("␣", "\\u2423")
    return _printable(escaped).replace(" ", "␣")


def _printable(text: str) -> str:
    """The text with control characters escaped: a file may hold anything."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
