"""Charts as inline SVG: axes with round ticks, a light grid, labels kept apart."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..markup import Html, tag
from ._numbers import minus, show_number

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 58, 10, 34
LABEL = 13  # least distance between two labels
MOST_DOTS = 400  # points of a chart that tell their value under the mouse
COLORS = 12  # of lines; the next dozen has them again, dashed


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


def apart(places: list[float], top: float, bottom: float) -> list[float]:
    """Heights of labels, moved as little as keeps any two from covering each other.

    All of them lie between ``top`` and ``bottom``, as long as there is room.

    >>> apart([50.0, 52.0], 0.0, 100.0), apart([10.0, 90.0], 0.0, 100.0)
    ([44.5, 57.5], [10.0, 90.0])
    >>> apart([99.0, 99.0], 0.0, 100.0), apart([1.0, 1.0, 15.0], 0.0, 100.0)
    ([87.0, 100.0], [0.0, 13.0, 26.0])
    """

    def fit(middle: float, n: int) -> float:
        half = LABEL * (n - 1) / 2
        return max(min(middle, bottom - half), top + half)

    order = sorted(range(len(places)), key=lambda k: places[k])
    blocks: list[tuple[float, list[int]]] = []  # the middle of each, and its labels
    for k in order:
        middle, members = fit(places[k], 1), [k]
        while blocks:
            above, others = blocks[-1]
            if middle - above >= LABEL * (len(members) + len(others)) / 2:
                break
            blocks.pop()
            members = others + members
            middle = fit(sum(places[i] for i in members) / len(members), len(members))
        blocks.append((middle, members))
    moved = list(places)
    for middle, members in blocks:
        for i, k in enumerate(members):
            moved[k] = middle + LABEL * (i - (len(members) - 1) / 2)
    return moved


def text(
    words: str,
    x: float | int,
    y: float | int,
    anchor: str,
    kind: str | None = None,
    run: int | None = None,
) -> Html:
    """Words in a drawing."""
    place = {"x": x, "y": round(y, 1), "text_anchor": anchor, "data_run": run}
    return tag("text", words, class_=kind, **place) if words else Html()


@dataclass(frozen=True)
class Series:
    """One line."""

    name: str
    points: list[tuple[float, float]]
    end: float | None = None
    """What is written at its end; the last value unless given."""
    raw: list[tuple[float, float]] = field(default_factory=list)
    """What the points are means of, drawn faintly behind them."""


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
    runs: bool = False
    """Whether each line is a run, which the reader may hide."""


def color_of(k: int) -> str:
    """The classes that give line k its color.

    >>> color_of(1), color_of(13)
    ('s1', 's1 again')
    """
    return f"s{k % COLORS}" + (" again" if k // COLORS % 2 else "")


def line_chart(chart: Chart) -> Html:
    """The drawing; its label says in words what it shows."""

    def height(value: float) -> float:
        return math.log10(value) if chart.log else value

    every = [point for s in chart.series for point in (*s.points, *s.raw)]
    xs, ys = [x for x, _ in every], [height(y) for _, y in every]
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
    n_dots = MOST_DOTS // max(len(drawn), 4)
    for k, series in drawn.items():  # one without points keeps its color
        spots, behind = (
            [(x_of(max(x, chart.start)), y_of(height(y))) for x, y in points]
            for points in (series.points, series.raw)
        )
        inside = [
            tag("polyline", class_=kind, points=" ".join(f"{x},{y}" for x, y in line))
            for kind, line in (("line raw", behind), ("line", spots))
            if line
        ]
        step = -(-len(spots) // n_dots)
        shown = "dot" if len(spots) > 12 else "dot seen"  # few points are marked
        both = list(zip(series.points, spots, strict=True))
        for (x, value), (cx, cy) in both[::-1][:: max(step, 1)]:
            words = f"{series.name}, {chart.x_label} {x:.4g}: "
            about = tag("title", words + show_number(value, chart.percent))
            inside.append(tag("circle", about, class_=shown, cx=cx, cy=cy, r=3))
        run = k if chart.runs else None
        parts.append(tag("g", *inside, class_=color_of(k), data_run=run))
    parts += label_ends(chart, drawn, x_of, lambda y: y_of(height(y)))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", *parts, viewBox=box, role="img", aria_label=describe_chart(chart))


def label_ends(
    chart: Chart,
    drawn: dict[int, Series],
    x_of: Callable[[float], float],
    y_of: Callable[[float], float],
) -> list[Html]:
    """A number at the end of each line, all to the right of the longest.

    More lines than there is room for tell their values under the mouse only.
    """
    top, bottom = float(TOP), float(HEIGHT - BOTTOM)
    if not drawn or LABEL * (len(drawn) - 1) > bottom - top:
        return []
    x = max(x_of(series.points[-1][0]) for series in drawn.values()) + 7
    ends = [s.points[-1][1] if s.end is None else s.end for s in drawn.values()]
    places = apart([y_of(value) for value in ends], top, bottom)
    return [
        text(
            show_number(value, chart.percent),
            x,
            y + 4,
            "start",
            f"last {color_of(k)}",
            run=k if chart.runs else None,
        )
        for k, value, y in zip(drawn, ends, places, strict=True)
    ]


def legend(names: list[str]) -> Html:
    """Which line is which."""
    keys = [
        tag("span", name, class_=f"key {color_of(k)}") for k, name in enumerate(names)
    ]
    return tag("p", *keys, class_="keys")


def choices(names: list[str]) -> Html:
    """The same where lines are runs: each can be hidden and shown again."""
    keys = [
        tag("label", hide_box(k), name, class_=f"key {color_of(k)}")
        for k, name in enumerate(names)
    ]
    return tag("p", *keys, class_="keys")


def hide_box(k: int, label: str | None = None) -> Html:
    """A box that shows a run while it is checked; ``page.js`` does that."""
    kind = {"type": "checkbox", "class_": "needs-script", "autocomplete": "off"}
    return tag("input", **kind, checked="", data_shows=k, aria_label=label)


def describe_chart(chart: Chart) -> str:
    """What a line chart shows, for those who do not see it."""
    by = chart.x_label
    sentences = [f"{chart.title} by {by}."]
    for series in filter(lambda series: series.points, chart.series):
        (start, first), (end, last) = series.points[0], series.points[-1]
        values = [value for _, value in series.points]
        shown = (first, last, min(values), max(values))
        a, b, low, high = (show_number(value, chart.percent) for value in shown)
        sentences.append(
            f"{series.name}: {a} at {by} {start:.3g}, {b} at {by} {end:.3g}, "
            f"lowest {low}, highest {high}."
        )
    if chart.ceiling:
        sentences.append(f"Dashed: {chart.ceiling[0]}.")
    return " ".join(sentences)
