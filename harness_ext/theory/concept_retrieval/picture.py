"""The picture of `concept-retrieval`: six panels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from harness_ext.theory.concept_retrieval.probes import NOISES, PAIRS, PLACEMENTS
from harness_ext.theory.concept_retrieval.training import RECIPES
from harness_ext.theory.rules import Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COMPARED = ("qa", "icl", "qa-icl")


def draw(runs: Runs, figure: Figure) -> None:
    """Error and projections along training; directions of h0, lengths, noise, unseen concepts."""
    figure.set_size_inches(15, 12)
    axes = figure.subplots(2, 3)
    _errors(axes[0, 0], runs)
    _projections(axes[0, 1], runs)
    _directions(axes[0, 2], runs)
    _lengths(axes[1, 0], runs)
    _noise(axes[1, 1], runs)
    _unseen(axes[1, 2], runs)


def _errors(axis: Axes, runs: Runs) -> None:
    for index, recipe in enumerate(RECIPES):
        _band(
            axis,
            runs[recipe]["step, curve"][0],
            runs[recipe]["error, curve"],
            RECIPES[recipe].title,
            index,
            "--" if RECIPES[recipe].architecture.residual is False else "-",
        )
    _percent(axis)
    axis.set(title="Test error on ICL prompts of 4 pairs", xlabel="gradient step")
    _legend(axis)


def _projections(axis: Axes, runs: Runs) -> None:
    for index, recipe in enumerate(COMPARED):
        curves = runs[recipe]
        for name, style, label in (
            ("value a", "-", "a'W_V a"),
            ("value b", ":", "|b'W_V b|"),
            ("attention a", "--", "a'W_K'W_Q a"),
        ):
            _band(
                axis,
                curves["step, curve"][0],
                curves[f"{name}, curve"],
                f"{RECIPES[recipe].title}: {label}",
                index,
                style,
            )
    axis.set(title="Projections, means over concepts", xlabel="gradient step", ylabel="projection")
    _legend(axis)


def _directions(axis: Axes, runs: Runs) -> None:
    for index, recipe in enumerate(COMPARED):
        for name, style in (("cos a", "-"), ("cos b", ":"), ("cos other", "--")):
            label = {"cos a": "a", "cos b": "|b|", "cos other": "largest other"}[name]
            values = [runs[recipe][f"{name}, {pairs} pairs"] for pairs in PAIRS]
            _band(axis, PAIRS, _by_seed(values), f"{RECIPES[recipe].title}: {label}", index, style)
    _lengths_axis(axis)
    axis.set(title="Cosine of h0 with the concept's vectors", ylabel="cosine", ylim=(0, 1))
    _legend(axis)


def _lengths(axis: Axes, runs: Runs) -> None:
    for index, recipe in enumerate(COMPARED):
        for name, style, label in (
            ("error", "-", "with query"),
            ("error without query", ":", "vector alone"),
        ):
            values = [runs[recipe][f"{name}, {pairs} pairs"] for pairs in PAIRS]
            _band(axis, PAIRS, _by_seed(values), f"{RECIPES[recipe].title}, {label}", index, style)
    _percent(axis)
    _lengths_axis(axis)
    axis.set(title="Test error against prompt length")
    _legend(axis)


def _noise(axis: Axes, runs: Runs) -> None:
    for index, noise in enumerate(NOISES):
        values = [runs["qa"][f"error, {pairs} pairs, noise {noise}"] for pairs in PAIRS]
        _band(axis, PAIRS, _by_seed(values), f"noise {noise}", index)
        floor = float(np.mean(runs["qa"][f"oracle error, noise {noise}"]))
        axis.axhline(floor, color=f"C{index}", linewidth=0.7, linestyle="--")
    _percent(axis)
    _lengths_axis(axis)
    axis.set(title="QA-trained under noise; dashed: h0 = a exactly")
    _legend(axis)


def _unseen(axis: Axes, runs: Runs) -> None:
    width = 0.35
    for index, recipe in enumerate(("qa", "icl")):
        errors = [runs[recipe][f"unseen error, {placement}"] for placement in PLACEMENTS]
        errors.insert(0, runs[recipe]["error, 4 pairs"])
        places = np.arange(len(errors)) + (index - 0.5) * width
        means = [float(np.mean(error)) for error in errors]
        axis.bar(places, means, width, label=RECIPES[recipe].title, color=f"C{index}")
        for place, mean in zip(places, means, strict=True):
            axis.annotate(f"{100 * mean:.1f}", (place, mean), ha="center", va="bottom", fontsize=7)
    axis.set_xticks(range(4), ["trained", "unseen,\ncone", "unseen,\nsigned", "unseen,\noutside"])
    axis.set(title="Unseen concepts, 4 pairs", ylabel="wrong answers", ylim=(0, 1))
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    _legend(axis)


def _band(axis: Axes, x: Any, by_seed: Any, label: str, colour: int, style: str = "-") -> None:
    """The mean over seeds as a line, the range as a band; `by_seed` is (seeds, points)."""
    values = np.asarray(by_seed, dtype=float)
    axis.plot(x, values.mean(axis=0), style, label=label, color=f"C{colour}")
    axis.fill_between(
        x, values.min(axis=0), values.max(axis=0), alpha=0.2, color=f"C{colour}", linewidth=0
    )


def _legend(axis: Axes) -> None:
    """Below the panel, where it hides no curve."""
    axis.legend(
        fontsize=7.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False
    )
    axis.grid(alpha=0.25)


def _by_seed(points: list[list[float]]) -> Any:
    return np.asarray(points).T


def _percent(axis: Axes) -> None:
    """A scale that shows 0 and small errors apart."""
    axis.set_yscale("symlog", linthresh=0.01)
    axis.set_ylim(0, 1)
    ticks = [0, 0.005, 0.01, 0.03, 0.1, 0.3, 1]
    axis.set_yticks(ticks, [f"{100 * tick:g} %" for tick in ticks])
    axis.set_yticks([], minor=True)
    axis.set_ylabel("wrong answers")


def _lengths_axis(axis: Axes) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(PAIRS, [str(pairs) for pairs in PAIRS])
    axis.set_xlabel("demonstrations in the prompt")
