"""A line chart as inline SVG: axes, a light grid, the last value labelled."""

import math
from dataclasses import dataclass

from ._axes import BOTTOM, HEIGHT, WIDTH, apart, axes, text
from ._html import Html, tag
from ._numbers import told

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
    """Where the horizontal axis ends, at least."""
    ceiling: tuple[str, float] | None = None
    """A dashed line that no value can pass."""
    percent: bool = False
    zero: bool = True
    """Whether the axis includes zero."""
    x_label: str = "epoch"
    start: float = 0.0
    log: bool = False
    """Powers of ten upwards; values are positive then."""


def line_chart(chart: Chart) -> Html:
    """The drawing; its label says in words what it shows."""

    def height(value: float) -> float:
        return math.log10(value) if chart.log else value

    xs = [x for s in chart.series for x, _ in s.points]
    ys = [height(y) for s in chart.series for _, y in s.points]
    ys += [0.0] * (chart.zero and not chart.log)
    ys += [chart.ceiling[1]] if chart.ceiling else []
    end = max([chart.end, *xs])
    around = axes(
        (chart.start, end),
        (min(ys), max(ys)),
        x_label=chart.x_label,
        percent=chart.percent,
        log=chart.log,
    )
    x_of, y_of, parts = around.x_of, around.y_of, list(around.frame)
    if chart.ceiling:
        name, value = chart.ceiling
        y, x1, x2 = y_of(value), x_of(chart.start), x_of(end)
        parts.append(tag("line", class_="ceiling", x1=x1, x2=x2, y1=y, y2=y))
        parts.append(text(name, x1 + 5, y + 14, "start"))
    drawn = {k: s for k, s in enumerate(chart.series) if s.points}
    for k, series in drawn.items():  # one without points keeps its colour
        spots = [(x_of(max(x, chart.start)), y_of(height(y))) for x, y in series.points]
        path = " ".join(f"{x},{y}" for x, y in spots)
        parts.append(tag("polyline", class_=f"line s{k}", points=path))
        step = -(-len(spots) // MOST_DOTS)
        shown = "dot" if len(spots) > 12 else "dot seen"  # few points are marked
        both = list(zip(series.points, spots, strict=True))
        for (x, value), (cx, cy) in both[::-1][:: max(step, 1)]:
            said = f"{series.name}, {chart.x_label} {x:.4g}: "
            about = tag("title", said + told(value, chart.percent))
            parts.append(
                tag("circle", about, class_=f"{shown} s{k}", cx=cx, cy=cy, r=3)
            )
    ends = [s.points[-1] for s in drawn.values()]
    places = apart([y_of(height(value)) for _, value in ends], HEIGHT - BOTTOM)
    for k, (last, value), y in zip(drawn, ends, places, strict=True):
        x = x_of(last) + 7
        label = told(value, chart.percent)
        parts.append(text(label, x, y + 4, "start", f"last s{k}"))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", *parts, viewBox=box, role="img", aria_label=described(chart))


def legend(names: list[str]) -> Html:
    """Which line is which."""
    keys = [tag("span", name, class_=f"key s{k}") for k, name in enumerate(names)]
    return tag("p", *keys, class_="keys")


def described(chart: Chart) -> str:
    """What a line chart shows, for those who do not see it."""
    by = chart.x_label
    said = [f"{chart.title} by {by}."]
    for series in filter(lambda series: series.points, chart.series):
        (start, first), (end, last) = series.points[0], series.points[-1]
        values = [value for _, value in series.points]
        shown = (first, last, min(values), max(values))
        a, b, low, high = (told(value, chart.percent) for value in shown)
        said.append(
            f"{series.name}: {a} at {by} {start:.3g}, {b} at {by} {end:.3g}, "
            f"lowest {low}, highest {high}."
        )
    if chart.ceiling:
        said.append(f"Dashed: {chart.ceiling[0]}.")
    return " ".join(said)
