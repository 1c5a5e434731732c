"""A line chart as inline SVG: axes, ticks, a light grid, the last value labelled."""

import math
from dataclasses import dataclass

from ._html import Html, tag

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 64, 10, 34
LABEL = 13  # least distance between two labels
MOST_DOTS = 100  # points that tell their value under the mouse


@dataclass(frozen=True)
class Series:
    """One line."""

    name: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """What to draw; values are finite."""

    title: str
    series: list[Series]
    end: float = 1.0
    """Where the axis of epochs ends, at least."""
    ceiling: tuple[str, float] | None = None
    """A dashed line that no value can pass."""
    percent: bool = False
    zero: bool = True
    """Whether the axis includes zero."""


def line_chart(chart: Chart) -> Html:
    """The drawing; its label says in words what it shows."""
    xs = [x for s in chart.series for x, _ in s.points]
    ys = [y for s in chart.series for _, y in s.points]
    ys += [0.0] * chart.zero + ([chart.ceiling[1]] if chart.ceiling else [])
    end = max([chart.end, *xs])
    y_ticks = ticks(min(ys), max(ys))
    x_ticks = [tick for tick in ticks(0.0, end) if tick <= end]
    low, high = min([*ys, *y_ticks]), max([*ys, *y_ticks])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x_of(x: float) -> float:
        return round(LEFT + (right - LEFT) * max(x, 0) / end, 1)

    def y_of(y: float) -> float:
        return round(bottom - (bottom - TOP) * (y - low) / (high - low), 1)

    parts = []
    for tick in y_ticks:
        y = y_of(tick)
        parts.append(tag("line", class_="grid", x1=LEFT, x2=right, y1=y, y2=y))
        text = f"{100 * tick:.10g} %" if chart.percent else f"{tick:.10g}"
        parts.append(_text(text, LEFT - 6, y + 4, "end"))
    for tick in x_ticks:
        x = x_of(tick)
        parts.append(tag("line", class_="axis", x1=x, x2=x, y1=bottom, y2=bottom + 4))
        parts.append(_text(f"{tick:.10g}", x, bottom + 16, "middle"))
    parts.append(tag("line", class_="axis", x1=LEFT, x2=right, y1=bottom, y2=bottom))
    parts.append(_text("epoch", (LEFT + right) / 2, HEIGHT - 3, "middle"))
    if chart.ceiling:
        name, value = chart.ceiling
        y = y_of(value)
        parts.append(tag("line", class_="ceiling", x1=LEFT, x2=right, y1=y, y2=y))
        parts.append(_text(name, LEFT + 5, y + 13, "start"))
    for k, series in enumerate(chart.series):
        spots = [(x_of(x), y_of(y)) for x, y in series.points]
        path = " ".join(f"{x},{y}" for x, y in spots)
        parts.append(tag("polyline", class_=f"line s{k}", points=path))
        step = -(-len(spots) // MOST_DOTS)
        shown = "dot" if len(spots) > 12 else "dot seen"  # few points are marked
        both = list(zip(series.points, spots, strict=True))
        for (x, value), (cx, cy) in both[::-1][:: max(step, 1)]:
            about = tag(
                "title", f"{series.name}, epoch {x:.4g}: {told(value, chart.percent)}"
            )
            parts.append(
                tag("circle", about, class_=f"{shown} s{k}", cx=cx, cy=cy, r=3)
            )
    ends = [s.points[-1][1] for s in chart.series]
    places = apart([y_of(value) for value in ends])
    for k, (value, y) in enumerate(zip(ends, places, strict=True)):
        x = x_of(chart.series[k].points[-1][0]) + 7
        label = told(value, chart.percent)
        parts.append(_text(label, x, y + 4, "start", f"last s{k}"))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", *parts, viewBox=box, role="img", aria_label=described(chart))


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


def apart(places: list[float]) -> list[float]:
    """Heights of labels, moved so that no two cover each other.

    >>> apart([50.0, 52.0]), apart([10.0, 90.0])
    ([44.5, 57.5], [10.0, 90.0])
    """
    if len(places) != 2 or abs(places[0] - places[1]) >= LABEL:
        return places
    middle, half = sum(places) / 2, LABEL / 2
    first = -half if places[0] <= places[1] else half
    return [middle + first, middle - first]


def told(value: float, percent: bool = False) -> str:
    """A value as it is read out.

    >>> told(0.0625, True), told(4.3118), told(12345.6), told(6.63e-07)
    ('6.2 %', '4.31', '12,346', '6.63e-07')
    """
    if percent:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def described(chart: Chart) -> str:
    """What a line chart shows, for those who do not see it."""
    said = [f"{chart.title} by epoch."]
    for series in chart.series:
        (start, first), (end, last) = series.points[0], series.points[-1]
        values = [value for _, value in series.points]
        shown = (first, last, min(values), max(values))
        a, b, low, high = (told(value, chart.percent) for value in shown)
        said.append(
            f"{series.name}: {a} at epoch {start:.3g}, {b} at epoch {end:.3g}, "
            f"lowest {low}, highest {high}."
        )
    if chart.ceiling:
        said.append(f"Dashed: {chart.ceiling[0]}.")
    return " ".join(said)


def _text(
    text: str, x: float | int, y: float | int, anchor: str, kind: str | None = None
) -> Html:
    place = {"x": x, "y": round(y, 1), "text_anchor": anchor}
    return tag("text", text, class_=kind, **place)
