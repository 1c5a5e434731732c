"""Where things go in a drawing: round ticks, scales, labels kept apart."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from ._html import Html, tag
from ._numbers import minus

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 58, 10, 34
LABEL = 13  # least distance between two labels


@dataclass(frozen=True)
class Axes:
    """The frame of a drawing and the places of numbers in it."""

    x_of: Callable[[float], float]
    y_of: Callable[[float], float]
    frame: list[Html]


def axes(
    xs: tuple[float, float],
    ys: tuple[float, float],
    *,
    x_label: str,
    percent: bool = False,
    log: bool = False,
    bare: bool = False,
    right: int = RIGHT,
) -> Axes:
    """A grid with numbers at round places.

    Args:
        xs: First and last number of the horizontal axis.
        ys: Least and greatest of the vertical one, widened to round numbers; exponents
            of ten where it is logarithmic.
        x_label: Below the horizontal axis.
        percent: Whether the vertical numbers are shares.
        log: Whether the vertical numbers are exponents of ten.
        bare: Leave the vertical numbers out, where only the form counts.
        right: Room for labels beside the drawing.
    """
    y_ticks = ticks(*ys) if not log else _exponents(*ys)
    low, high = min(ys[0], y_ticks[0]), max(ys[1], y_ticks[-1])
    start, end = xs
    edge, bottom = WIDTH - right, HEIGHT - BOTTOM

    def x_of(x: float) -> float:
        return round(LEFT + (edge - LEFT) * (x - start) / (end - start), 1)

    def y_of(y: float) -> float:
        return round(bottom - (bottom - TOP) * (y - low) / (high - low), 1)

    parts = []
    for tick in y_ticks:
        y = y_of(tick)
        parts.append(tag("line", class_="grid", x1=LEFT, x2=edge, y1=y, y2=y))
        words = f"{100 * tick:.10g} %" if percent else f"{tick:.10g}"
        words = f"{10.0**tick:.10g}" if log else words
        parts.append(text("" if bare else minus(words), LEFT - 7, y + 4, "end"))
    for tick in ticks(start, end):
        if start <= tick <= end:
            parts.append(text(minus(f"{tick:.10g}"), x_of(tick), bottom + 16, "middle"))
    parts.append(tag("line", class_="axis", x1=LEFT, x2=edge, y1=bottom, y2=bottom))
    parts.append(text(x_label, (LEFT + edge) / 2, HEIGHT - 3, "middle"))
    return Axes(x_of, y_of, parts)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that span a range, give or take a fifth of a step.

    >>> ticks(-0.1, 4.2), ticks(-2.6, 1.3)
    ([0.0, 1.0, 2.0, 3.0, 4.0], [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0])
    """
    size = max(abs(low), abs(high))
    if high - low <= max(1e-9 * size, 1e-100):  # one value: room on both sides
        room = size / 2 if size > 1e-90 else 1.0
        low, high = low - room, high + room
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 5, 10, 20) if unit * k >= rough * 0.999)
    first, last = math.floor(low / step + 0.2), math.ceil(high / step - 0.2)
    return [k * step for k in range(first, last + 1)]


def _exponents(low: float, high: float) -> list[float]:
    first, last = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    return [float(k) for k in range(first, last + 1, -(-(last - first) // 5))]


def apart(places: list[float], lowest: float | int = math.inf) -> list[float]:
    """Heights of labels, moved as little as keeps any two from covering each other.

    >>> apart([50.0, 52.0]), apart([10.0, 90.0]), apart([99.0, 99.0], 100.0)
    ([44.5, 57.5], [10.0, 90.0], [87.0, 100.0])
    """
    order = sorted(range(len(places)), key=lambda k: places[k])
    blocks: list[tuple[float, list[int]]] = []  # the middle of each, and its labels
    for k in order:
        middle, own = min(places[k], lowest), [k]
        while blocks:
            above, others = blocks[-1]
            if middle - above >= LABEL * (len(own) + len(others)) / 2:
                break
            blocks.pop()
            own = others + own
            middle = sum(places[i] for i in own) / len(own)
            middle = min(middle, lowest - LABEL * (len(own) - 1) / 2)
        blocks.append((middle, own))
    moved = list(places)
    for middle, own in blocks:
        for i, k in enumerate(own):
            moved[k] = middle + LABEL * (i - (len(own) - 1) / 2)
    return moved


def text(
    words: str, x: float | int, y: float | int, anchor: str, kind: str | None = None
) -> Html:
    """Words in a drawing."""
    place = {"x": x, "y": round(y, 1), "text_anchor": anchor}
    return tag("text", words, class_=kind, **place) if words else Html()
