"""Draws how accuracy depends on the share of heads that are added, from recorded runs.

python -m harness_ext.compare.heads results/heads
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from harness_ext.compare.heads_rows import read_models
from harness_ext.compare.heads_runs import GENERATION, ICL, NAMES, Curve, curves
from harness_ext.compare.heads_tables import PICTURE
from harness_ext.errors import UsageError
from harness_ext.plots import LINES, file_of


def main(argv: Sequence[str] | None = None) -> int:
    """Write the picture into the folder of the recorded runs, and print its path.

    Returns 1, with the reason on standard error, where there is nothing to draw or a row cannot be
    used.
    """
    parser = argparse.ArgumentParser(
        prog="python -m harness_ext.compare.heads", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="folder with a file MODEL.jsonl for each model")
    folder = parser.parse_args(argv).folder
    try:
        found = [(r.model, c) for r in read_models(folder) for c in curves(r) if c.seeds]
        if not found:
            raise UsageError(
                f"{folder} holds no *.jsonl with runs at several shares of heads. Make some with "
                f"python results/heads.py --to {folder} --plan fraction."
            )
        path = folder / PICTURE
        path.write_bytes(picture(found))
    except (UsageError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(path)
    return 0


def picture(found: Sequence[tuple[str, Curve]]) -> bytes:
    """An SVG with a panel for each model and curve, with 95 % intervals as bands.

    The same bytes for the same curves and version of matplotlib.
    """
    figure = Figure(figsize=(4.4 * len(found), 3.9), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for axes, (model, curve) in zip(panels, found, strict=True):
        _draw(axes, curve)
        seeds = f"{len(curve.seeds)} seed{'s' if len(curve.seeds) > 1 else ''}"
        axes.set_title(f"{model}\n{curve.task}, {seeds}", fontsize=10)
    tones = all(curve.task.startswith(GENERATION) for _, curve in found)
    panels[0].set_ylabel(f"share {'in the tone asked for' if tones else 'of right answers'}")
    named = {
        name: line
        for axes in panels
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=3, fontsize=8, frameon=False
    )
    figure.suptitle("Accuracy by the share of heads added to a zero-shot prompt", fontsize=11)
    return file_of(figure, "svg")


def _draw(axes: Any, curve: Curve) -> None:
    ticks: dict[float, str] = {}
    for kind, points in curve.points.items():
        line = LINES[kind]
        shares, values = list(points), [value for _, value in points.values()]
        axes.fill_between(
            shares, [v.low for v in values], [v.high for v in values], color=line.colour,
            alpha=0.15,
            linewidth=0,
        )  # fmt: skip
        axes.plot(
            shares, [v.estimate for v in values], color=line.colour, linestyle=line.style,
            marker=line.marker, markersize=4, label=line.name,
        )  # fmt: skip
        ticks |= {share: f"{100 * share:g}\n({heads})" for share, (heads, _) in points.items()}
    for arm, value in curve.bounds.items():
        axes.axhline(
            value.estimate, color="black", linewidth=0.9, label=NAMES[arm],
            linestyle=(0, (6, 3)) if arm == ICL else (0, (1, 3)),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(list(ticks), list(ticks.values()), fontsize=8)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="share of heads added, % (number of heads)", ylim=(-0.03, 1.03))
    axes.grid(alpha=0.25)


if __name__ == "__main__":
    sys.exit(main())
