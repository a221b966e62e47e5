"""Maps of the attention heads that `taskvec heads` scored: its folders read, its scores drawn."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from harness_ext.compare.evaluations import Problem
from harness_ext.compare.page import svg
from harness_ext.compare.text import clip, number

JSON, SCORES = "scores.json", "scores.safetensors"
FORMAT = 1
INDUCTION = "induction"
# More heads than the largest models have; a file that says otherwise is none of ours.
MOST = 1000
TOP_SHOWN = 5

# Light to dark and blue over white to red, each readable in every kind of colour vision:
# anchors between which colours are mixed. Cividis-like, and after Brewer's RdBu.
_SEQUENTIAL = ("#0b2a52", "#31446b", "#575d6d", "#7b7b78", "#a59c74", "#d2c060", "#ffe945")
_SIGNED = ("#2166ac", "#67a9cf", "#d1e5f0", "#f7f7f7", "#fddbc7", "#ef8a62", "#b2182b")


@dataclass(frozen=True)
class Kind:
    """A score: its name, what it measures, and whether 0 is in the middle of the colours."""

    name: str
    unit: str
    signed: bool


KINDS: Mapping[str, Kind] = {
    "tr": Kind("Task recognition (TR)", "norm in the labels’ span", False),
    "tl": Kind("Task learning (TL)", "lead of the right label ÷ norm", True),
    INDUCTION: Kind("Induction (IH)", "attention to the token after", False),
}


@dataclass(frozen=True, eq=False)
class HeadMap:
    """The scores [layers, heads] of one kind on one task, and the top heads as (layer, head).

    task: empty for induction, which is scored on random tokens.
    """

    kind: Kind
    task: str
    scores: NDArray[np.float64]
    top: tuple[tuple[int, int], ...]

    @property
    def chart(self) -> Markup:
        """The map as a picture."""
        return _draw(self)

    @property
    def is_wide(self) -> bool:
        """Whether the map needs more than a narrow column."""
        return self.scores.shape[1] > 12

    @property
    def best(self) -> list[tuple[int, int, str]]:
        """The first of the top heads: layer, head, score."""
        return [
            (layer, head, number(float(self.scores[layer, head])))
            for layer, head in self.top[:TOP_SHOWN]
        ]


@dataclass(frozen=True, eq=False)
class HeadScores:
    """What one run of `taskvec heads` found: its maps, and what made it."""

    path: Path
    model: str
    command: str
    maps: tuple[HeadMap, ...]


def read_heads(sources: Iterable[Path]) -> tuple[tuple[HeadScores, ...], tuple[Problem, ...]]:
    """The head scores in the folders, searched at any depth, and what cannot be used."""
    found, problems = [], []
    for path in dict.fromkeys(path for source in sources for path in _files(source)):
        try:
            found.append(_read(path))
        except (OSError, ValueError, KeyError, TypeError, IndexError, SafetensorError) as error:
            problems.append(Problem(path, f"no head scores that can be shown ({_said(error)})."))
    return tuple(found), tuple(problems)


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return []
    return sorted(
        path
        for path in source.rglob(JSON)
        if not any(part.startswith(".") for part in path.relative_to(source).parts)
    )


def _said(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it does not tell {error}"
    return getattr(error, "strerror", None) or str(error)


def _read(path: Path) -> HeadScores:
    written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(written, dict) or written.get("format") != FORMAT:
        raise ValueError("not written by this version of `taskvec heads`")
    tasks = written.get("tasks")
    if not isinstance(tasks, dict):
        raise ValueError("it names no tasks")
    scores = load(path.with_name(SCORES).read_bytes())
    maps = []
    for task, own in tasks.items():
        for kind in ("tr", "tl"):
            if (values := scores.get(f"{task}/{kind}")) is not None:
                maps.append(_map(KINDS[kind], task, values, own["top"][kind]))
    if maps and INDUCTION in scores:
        first = next(iter(tasks.values()))
        maps.append(_map(KINDS[INDUCTION], "", scores[INDUCTION], first["top"]["ih"]))
    if not maps:
        raise ValueError("no scores of a task")
    model = str(written["model"]).removeprefix("packaged:").rstrip("/\\")
    return HeadScores(path, _last(model), str(written.get("command", "")), tuple(maps))


def _last(model: str) -> str:
    """A folder's last part; a hub name as it is."""
    is_folder = model.startswith(("/", "~", ".")) or "\\" in model
    return model.replace("\\", "/").rsplit("/", 1)[-1] if is_folder else model


def _map(kind: Kind, task: str, values: NDArray[Any], top: Sequence[Mapping[str, Any]]) -> HeadMap:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 2 or not 0 < max(scores.shape) <= MOST or not scores.size:
        raise ValueError(f"scores of shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError("a score that is not finite")
    heads = tuple((int(each["layer"]), int(each["head"])) for each in top)
    for layer, head in heads:
        if not (0 <= layer < scores.shape[0] and 0 <= head < scores.shape[1]):
            raise ValueError(f"layer {layer}, head {head} is not among the scores")
    return HeadMap(kind, task, scores, heads)


def _draw(own: HeadMap) -> Markup:
    """Layers upwards, heads to the right: the cells as one small image, the top heads framed."""
    layers, heads = own.scores.shape
    cell = min(max(2.0, 260 / max(layers, heads)), 12.0)
    width, height = heads * cell, layers * cell
    left, top, legend = 34, 6, 58
    low, high = _range(own)
    shade = (own.scores - low) / ((high - low) or 1.0)
    parts = [_image(shade[::-1], own.kind.signed, left, top, width, height)]
    for layer, head in own.top:
        place = {"x": left + head * cell, "y": top + (layers - 1 - layer) * cell}
        for look in ("frame outer", "frame"):
            parts.append(svg.element("rect", **place, width=cell, height=cell, class_=look))
    for tick in svg.ticks(0, max(layers - 1, 1), 6):
        if tick == int(tick) and tick < layers:
            y = top + (layers - 0.5 - tick) * cell + 4
            parts.append(svg.text(str(int(tick)), left - 5, y, "end"))
    for tick in svg.ticks(0, max(heads - 1, 1), max(2, int(width // 24))):
        if tick == int(tick) and tick < heads:
            x = left + (tick + 0.5) * cell
            parts.append(svg.text(str(int(tick)), x, top + height + 14, "middle"))
    parts.append(svg.text("head", left + width / 2, top + height + 28, "middle", "muted"))
    middle = f"translate(10 {top + height / 2:.0f}) rotate(-90)"
    parts.append(svg.element("g", svg.text("layer", 0, 0, "middle", "muted"), transform=middle))
    bar = left + width + 14
    parts.append(_image(np.linspace(1, 0, 64)[:, None], own.kind.signed, bar, top, 10, height))
    for share in (0, 0.5, 1):
        value = number(low + share * (high - low))
        parts.append(svg.text(value, bar + 14, top + height * (1 - share) + 8 * share))
    tops = "; ".join(f"layer {layer} head {head}: {score}" for layer, head, score in own.best)
    return svg.picture(
        left + width + legend,
        top + height + 34,
        f"{own.kind.name}{f' on {clip(own.task, 60)}' if own.task else ''}, layer by head",
        f"Colour: {own.kind.unit}, from {number(low)} to {number(high)}. Top heads: {tops}.",
        *parts,
    )


def _range(own: HeadMap) -> tuple[float, float]:
    furthest = float(np.abs(own.scores).max())
    return (
        (-furthest, furthest) if own.kind.signed else (min(0.0, float(own.scores.min())), furthest)
    )


def _image(
    shades: NDArray[np.float64], signed: bool, x: float, y: float, width: float, height: float
) -> Markup:
    data = base64.b64encode(_png(_colours(shades, signed))).decode()
    return svg.element(
        "image",
        href=f"data:image/png;base64,{data}",
        x=x,
        y=y,
        width=width,
        height=height,
        preserveAspectRatio="none",
        class_="cells",
    )


def _colours(shades: NDArray[np.float64], signed: bool) -> NDArray[np.uint8]:
    """The colours [rows, columns, 3] of shades from 0 to 1."""
    names = _SIGNED if signed else _SEQUENTIAL
    anchors = np.array([list(bytes.fromhex(name[1:])) for name in names])
    places = np.linspace(0, 1, len(anchors))
    mixed = [np.interp(shades, places, anchors[:, channel]) for channel in range(3)]
    return np.stack(mixed, axis=-1).round().astype(np.uint8)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of the colours [rows, columns, 3] (PNG specification, third edition)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    rows, columns, _ = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    # Every row begins with the filter it is written through: 0, none.
    scanlines = b"".join(b"\0" + row.tobytes() for row in pixels)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(scanlines, 9)),
            chunk(b"IEND", b""),
        )
    )
