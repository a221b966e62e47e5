"""Pictures of `taskvec heads`: layer × head maps of scores, and what explains a task vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from harness_ext.analysis.explained import Explained
from harness_ext.heads.select import Head
from harness_ext.plots import LINES, file_of

FORMATS = ("svg", "png")


@dataclass(frozen=True)
class Look:
    """How a score is named and coloured. signed: whether 0 is in the middle of the colours."""

    title: str
    unit: str
    signed: bool


def looks(squared: bool) -> dict[str, Look]:
    """By score; squared: as the scores were taken."""
    norm = "‖Pa‖²" if squared else "‖Pa‖"
    return {
        "tr": Look("Task recognition (TR)", f"norm in the labels' span, {norm}", False),
        "tl": Look("Task learning (TL)", f"lead of the right label's logit / {norm}", True),
        "label_logit": Look("Logit attribution, right label", "logit, before the final norm", True),
        "mean_logit": Look("Logit attribution, all labels", "logit, before the final norm", True),
        "ih": Look("Induction (IH)", "attention weight on the token after", False),
    }


def head_map(scores: Tensor, top: Sequence[Head], look: Look, about: str) -> dict[str, bytes]:
    """The scores [layers, heads] as a map, the `top` heads marked: by format, the file's bytes.

    about: what was measured, the second line of the title.
    """
    layers, heads = scores.shape
    cell = max(0.08, min(0.32, 7 / max(layers, heads)))
    figure = Figure(
        figsize=(max(4.6, heads * cell + 2.6), max(3.2, layers * cell + 1.5)), layout="constrained"
    )
    axes = figure.add_subplot()
    values = scores.double().numpy()
    furthest = float(abs(values).max()) or 1.0
    colours: dict[str, Any] = (
        {"cmap": "RdBu_r", "vmin": -furthest, "vmax": furthest}
        if look.signed
        else {"cmap": "viridis", "vmin": min(0.0, float(values.min())), "vmax": furthest}
    )
    mesh = axes.pcolormesh(values, edgecolors="face", linewidth=0.1, **colours)
    for layer, head in top:
        for colour, width in (("white", 3.2), ("black", 1.4)):
            axes.add_patch(
                Rectangle((head, layer), 1, 1, fill=False, edgecolor=colour, linewidth=width)
            )
    for axis, count in ((axes.xaxis, heads), (axes.yaxis, layers)):
        step = max(1, -(-count // 16))
        axis.set_ticks([n + 0.5 for n in range(0, count, step)], map(str, range(0, count, step)))
    axes.set(xlabel="head", ylabel="layer", xlim=(0, heads), ylim=(0, layers))
    axes.tick_params(length=2)
    axes.set_title(f"{look.title}\n{about}", fontsize=10)
    figure.colorbar(mesh, ax=axes).set_label(look.unit, fontsize=9)
    heads_named = "head" if len(top) == 1 else f"{len(top)} heads"
    figure.supxlabel(f"framed: the top {heads_named}", fontsize=8)
    return {form: file_of(figure, form) for form in FORMATS}


def explained_lines(found: Mapping[str, Explained], about: str) -> dict[str, bytes]:
    """By layer, the cosine of the task vector with the summed heads of each kind, and its share in
    their span: by format, the file's bytes."""
    layers = len(found["tr"].cosine)
    figure = Figure(figsize=(8.4, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for kind, own in found.items():
        line = LINES[kind]
        for axes, values in ((left, own.cosine), (right, own.span)):
            known = [(layer, value) for layer, value in enumerate(values) if value is not None]
            axes.plot(
                *zip(*known, strict=True),
                color=line.colour,
                linestyle=line.style,
                marker=".",
                label=line.name,
            )
    left.axhline(0, color="black", linewidth=0.6)
    left.set(title="Cosine with the heads' sum", ylabel="cosine")
    right.set(title="Squared norm inside the heads' span", ylabel="share", ylim=(0, None))
    for axes in (left, right):
        axes.set(xlabel="layer", xlim=(-0.5, layers - 0.5))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(
        *left.get_legend_handles_labels(), fontsize=8, ncols=4, loc="outside lower center"
    )
    figure.suptitle(
        f"What the heads up to a layer explain of the task vector\n{about}", fontsize=10
    )
    return {form: file_of(figure, form) for form in FORMATS}
