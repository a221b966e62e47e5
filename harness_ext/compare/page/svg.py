"""The little of SVG that the charts are drawn with. Colours are classes: the style sheet's."""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from harness_ext.compare.text import clip, number, visible


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """An element. Text is escaped, numbers are rounded to tenths; `class_` gives the class."""
    given = Markup("").join(
        Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), _value(value))
        for key, value in attributes.items()
    )
    inside = Markup("").join(
        child if isinstance(child, Markup) else escape(visible(child)) for child in children
    )
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), given, inside)


def text(
    content: str, x: float, y: float, anchor: str = "start", look: str = "", most: int = 60
) -> Markup:
    """A line of text of at most so many characters."""
    return element(
        "text", clip(content, most), x=x, y=y, text_anchor=anchor, class_=f"label {look}".strip()
    )


def line(x1: float, y1: float, x2: float, y2: float, look: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=look)


def picture(width: float, height: float, title: str, description: str, *parts: Markup) -> Markup:
    """A whole picture with the name and the description that screen readers read."""
    return element(
        "svg",
        element("title", clip(title, 300)),
        element("desc", clip(description, 600)),
        *parts,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        width=width,
        height=height,
        role="img",
    )


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from low to high, at steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    step = next(
        size * base
        for base in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
        for size in (1, 2, 5)
        if span / (size * base) <= most
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(n * step, 6) + 0.0 for n in range(first, last + 1)]


def tick_name(value: float) -> str:
    """A tick's value with no more decimals than it needs."""
    return number(value, next(d for d in range(7) if round(value, d) == round(value, 6)))


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return visible(value)
    return f"{value:.1f}".removesuffix(".0")
