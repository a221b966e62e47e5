"""What pictures of attention heads have in common: a line for each kind, and how they are saved."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Line:
    """How a kind of heads is named and drawn, in terms of matplotlib."""

    name: str
    colour: str
    style: str
    marker: str


# Of colours that stay apart in every kind of colour vision (Okabe and Ito).
LINES: Mapping[str, Line] = {
    "tr": Line("task recognition (TR)", "#0072B2", "-", "o"),
    "tl": Line("task learning (TL)", "#D55E00", "--", "s"),
    "ih": Line("induction (IH)", "#009E73", "-.", "^"),
    "random": Line("random, in the layers of TR", "#767676", ":", "D"),
}


def file_of(figure: Figure, form: str) -> bytes:
    """The figure as `svg` or `png`: the same bytes for the same picture and matplotlib."""
    unsaid = ("Date", "Creator") if form == "svg" else ("Software",)
    metadata: dict[str, Any] = dict.fromkeys(unsaid)
    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "taskvec", "svg.fonttype": "none"}):
        figure.savefig(stream, format=form, dpi=160, metadata=metadata)
    return stream.getvalue()
