"""Development accuracy by layer, and the layers that were chosen, as small charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from markupsafe import Markup

from harness_ext.compare.board_rows import Row
from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.page import svg
from harness_ext.compare.text import clip, listed, number

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 38, 8, 10, 34
# As many lines as the style sheet has looks for.
LOOKS = 6


@dataclass(frozen=True)
class Curve:
    """The development accuracy of a method at one number of shots, a mean over its seeds.

    Attributes:
        shots: of the tested prompt; None where it is not told.
        layers, accuracy: equally many.
        chosen: the layer of each seed.
        episodes: how many development episodes an accuracy is over; None where it is not told.
    """

    shots: int | None
    layers: tuple[int, ...]
    accuracy: tuple[float, ...]
    chosen: tuple[int, ...]
    episodes: int | None

    @property
    def name(self) -> str:
        """Such as `2-shot`."""
        return "shots not told" if self.shots is None else f"{self.shots}-shot"

    def at(self, layer: int) -> float:
        """The accuracy at a layer, which must be one of the layers."""
        return self.accuracy[self.layers.index(layer)]


@dataclass(frozen=True)
class Panel:
    """One method of one model on a task: a curve for each number of shots."""

    model: str
    method: str
    variant: str
    curves: tuple[Curve, ...]

    @property
    def chart(self) -> Markup:
        """The curves as a picture, the chosen layers marked."""
        return _draw(self)

    @property
    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The same numbers: curve, chosen layers, accuracy there, episodes, accuracy by layer."""
        return [
            (
                curve.name,
                listed(curve.chosen),
                listed(number(curve.at(layer)) for layer in dict.fromkeys(curve.chosen)),
                "not told" if curve.episodes is None else str(curve.episodes),
                " ".join(number(value) for value in curve.accuracy),
            )
            for curve in self.curves
        ]

    @property
    def layers(self) -> str:
        """Which layers the numbers are of, such as `layers 0 to 29`."""
        layers = self.curves[0].layers
        return f"layers {layers[0]} to {layers[-1]}"


def panels(
    rows: Mapping[Row, Sequence[Evaluation]], tasks: Sequence[str]
) -> dict[str, tuple[Panel, ...]]:
    """By task, a panel for each model and method that was steered at a layer chosen among others.

    tasks: those shown, in this order.
    """
    found: dict[str, dict[tuple[str, str, str], list[Curve]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row, evaluations in rows.items():
        by_task: dict[str, list[Evaluation]] = defaultdict(list)
        for each in evaluations:
            if _sweep(each.steering) is not None:
                by_task[each.task].append(each)
        for task, own in by_task.items():
            found[task][row.model, row.method, row.variant].append(_curve(row.shots, own))
    return {
        task: tuple(Panel(*key, tuple(curves)) for key, curves in sorted(found[task].items()))
        for task in tasks
        if task in found
    }


def _sweep(
    steering: Mapping[str, Any],
) -> tuple[tuple[int, ...], tuple[float, ...], int] | None:
    """Layers, accuracies and the chosen layer, where the file tells them and they fit together."""
    layers, accuracy = steering.get("layers"), steering.get("development_accuracy_by_layer")
    chosen = steering.get("layer")
    if not isinstance(layers, list) or not isinstance(accuracy, list):
        return None
    if not (0 < len(layers) == len(accuracy)) or chosen not in layers:
        return None
    if not all(type(layer) is int for layer in layers):
        return None
    if not all(isinstance(value, int | float) and 0 <= value <= 1 for value in accuracy):
        return None
    return tuple(layers), tuple(map(float, accuracy)), layers[layers.index(chosen)]


def _curve(shots: int | None, evaluations: Sequence[Evaluation]) -> Curve:
    """The mean over the seeds that tried the same layers as the first of them."""
    sweeps = [sweep for each in evaluations if (sweep := _sweep(each.steering)) is not None]
    layers = sweeps[0][0]
    alike = [sweep for sweep in sweeps if sweep[0] == layers]
    episodes = evaluations[0].steering.get("development_episodes")
    return Curve(
        shots=shots,
        layers=layers,
        accuracy=tuple(
            fmean(values) for values in zip(*(sweep[1] for sweep in alike), strict=True)
        ),
        chosen=tuple(sweep[2] for sweep in alike),
        episodes=episodes if isinstance(episodes, int) else None,
    )


def _draw(panel: Panel) -> Markup:
    last = max(curve.layers[-1] for curve in panel.curves)
    first = min(curve.layers[0] for curve in panel.curves)
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT

    def x(layer: float) -> float:
        return LEFT + (layer - first) / max(1, last - first) * (right - LEFT)

    def y(value: float) -> float:
        return bottom - value * (bottom - TOP)

    parts = []
    for value in (0, 0.25, 0.5, 0.75, 1):
        parts.append(svg.line(LEFT, y(value), right, y(value), "grid" if value else "axis"))
        if value in (0, 0.5, 1):
            parts.append(svg.text(number(value, 1), LEFT - 6, y(value) + 4, "end"))
    for tick in svg.ticks(first, max(last, first + 1), 7):
        if tick == int(tick) and tick <= last:
            parts.append(svg.text(str(int(tick)), x(tick), bottom + 15, "middle"))
    parts.append(svg.text("layer", (LEFT + right) / 2, HEIGHT - 4, "middle", "muted"))
    parts.append(
        svg.element(
            "g",
            svg.text("accuracy", 0, 0, "middle", "muted"),
            transform=f"translate(10 {(TOP + bottom) / 2:.0f}) rotate(-90)",
        )
    )
    for number_, curve in enumerate(panel.curves):
        look = f"c{number_ % LOOKS}"
        points = " ".join(
            f"{x(layer):.1f},{y(value):.1f}"
            for layer, value in zip(curve.layers, curve.accuracy, strict=True)
        )
        parts.append(svg.element("polyline", points=points, class_=f"curve {look}"))
    # Above all curves, lest a later one hides them.
    for number_, curve in enumerate(panel.curves):
        for layer in dict.fromkeys(curve.chosen):
            parts.append(
                svg.element(
                    "circle",
                    cx=x(layer),
                    cy=y(curve.at(layer)),
                    r=4.5,
                    class_=f"chosen c{number_ % LOOKS}",
                )
            )
    chosen = "; ".join(f"{curve.name}: layer {listed(curve.chosen)}" for curve in panel.curves)
    return svg.picture(
        WIDTH,
        HEIGHT,
        f"Development accuracy by layer: {clip(panel.model)}, {clip(panel.method)}",
        f"Accuracy from 0 to 1 at layers {first} to {last}. Chosen: {chosen}.",
        *parts,
    )
