"""What a run leaves: figures as JSON, a picture as SVG and PNG, and tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness_ext.theory.check import Check, Preset
from harness_ext.theory.runner import Outcome
from harness_ext.theory.store import code_fingerprint, write_bytes, write_json

COLOURS = {"holds": "green", "does not hold": "red", "inconclusive": "yellow"}


def write(outcome: Outcome, folder: Path) -> None:
    """Write `figures.json`, `figure.svg` and `figure.png` of a check into its folder."""
    write_json(folder / "figures.json", figures(outcome))
    for suffix, picture in pictures(outcome).items():
        write_bytes(folder / f"figure.{suffix}", picture)


def figures(outcome: Outcome) -> dict[str, Any]:
    """Claims with how they ended, and every cell with what was measured in it."""
    claims = {claim.key: claim for claim in outcome.check.claims}
    return {
        "check": outcome.check.name,
        "title": outcome.check.title,
        "claims": [asdict(claims[found.claim]) | asdict(found) for found in outcome.findings],
        "cells": [
            {"settings": dict(cell.settings), "figures": figures}
            for cell, figures in outcome.measured
        ],
    }


def summary(outcomes: Sequence[Outcome], preset: Preset) -> dict[str, Any]:
    """How every claim of a run ended, and what it was run with; no figures of single cells."""
    packages = ("numpy", "scipy", "torch")
    return {
        "preset": asdict(preset),
        "versions": {package: version(package) for package in packages},
        "code": code_fingerprint(),
        "checks": {
            outcome.check.name: {
                found.claim: {
                    "verdict": found.verdict,
                    "recorded": claim.expected,
                    "statement": claim.statement,
                    "summary": found.summary,
                    "control": found.control,
                }
                for claim, found in zip(outcome.check.claims, outcome.findings, strict=True)
            }
            for outcome in outcomes
        },
    }


def pictures(outcome: Outcome) -> dict[str, bytes]:
    """The check's picture by file suffix: the same bytes for the same figures."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    outcome.check.draw(outcome.measured, figure)
    with matplotlib.rc_context({"svg.hashsalt": outcome.check.name}):
        return {
            "svg": _saved(figure, "svg", metadata={"Date": None}),
            "png": _saved(figure, "png", dpi=120),
        }


def verdicts(outcomes: Sequence[Outcome]) -> RenderableType:
    """A table per check: each claim, how it ended, and the figures that decided."""
    return Group(*(_table(outcome) for outcome in outcomes))


def listing(checks: Sequence[Check]) -> RenderableType:
    """The checks, their claims and the recorded outcomes."""
    table = Table(show_lines=True)
    table.add_column("check", min_width=max(len(check.name) for check in checks))
    table.add_column("claim", no_wrap=True)
    table.add_column("recorded", no_wrap=True)
    for check in checks:
        name = Text(check.name, style="bold") + Text(f"\n{check.title}", style="not bold")
        claims = "\n".join(claim.key for claim in check.claims)
        expected = Text("\n").join(_word(claim.expected) for claim in check.claims)
        table.add_row(name, claims, expected)
    return table


def description(check: Check) -> RenderableType:
    """A check's claims in full: statement, source, what is measured, threshold and its reason."""
    table = Table(title=f"{check.name}: {check.title}", title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for claim in check.claims:
        table.add_row("claim", Text(claim.key, style="bold"))
        for name in ("statement", "source", "measured", "threshold"):
            table.add_row(name, Text(getattr(claim, name)))
        table.add_row("recorded", _word(claim.expected), end_section=True)
    return table


def _table(outcome: Outcome) -> Table:
    table = Table(title=f"{outcome.check.name}: {outcome.check.title}", title_justify="left")
    table.add_column("claim", ratio=4, overflow="fold")
    table.add_column("verdict", min_width=max(map(len, COLOURS)))
    table.add_column("figures", ratio=8)
    table.add_column("control or reference", ratio=6)
    table.expand = True
    table.show_lines = True
    claims = {claim.key: claim for claim in outcome.check.claims}
    for found in outcome.findings:
        claim = claims[found.claim]
        ended = _word(found.verdict)
        if found.verdict != claim.expected:
            ended += Text(f"\nrecorded: {claim.expected}", style="bold")
        statement = Text(claim.key, style="bold") + Text(f"\n{claim.statement}", style="not bold")
        table.add_row(statement, ended, found.summary, found.control)
    return table


def _word(verdict: str) -> Text:
    return Text(verdict, style=COLOURS[verdict])


def _saved(figure: Any, suffix: str, **options: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format=suffix, **options)
    return buffer.getvalue()
