"""What diagnostics found: readings beside their ideals, spectrum, similarities."""

import shlex
from typing import Any

from ._axes import HEIGHT, WIDTH, axes
from ._files import RunFiles
from ._html import Html, Missing, lines, tag
from ._numbers import inside, minus, number
from ._readings import read, readings
from ._svg import Chart, Series, legend, line_chart

NAMES = {"positive": "two views of one image", "negative": "two images"}
LEAST = 1e-6  # of a singular value beside the largest; what is below is rounding


def diagnosed(run: RunFiles) -> Html:
    """All that ``diagnostics.json`` holds, or how to get it."""
    drawn = [part for part in (_spectrum(run), _similarities(run)) if part]
    found = read(inside(run.diagnostics, "readings"))
    if not drawn and not found:
        where = shlex.quote(str(run.folder))
        return Missing(f"No diagnostics: 'invariance diagnose {where}' writes them.")
    charts = [tag("div", lines(*drawn), class_="charts wide")] if drawn else []
    return lines(*charts, *([readings(found)] if found else []))


def _spectrum(run: RunFiles) -> Html | None:
    series = []
    for of, name in (("h", "features h"), ("z", "projections z")):
        values = _finite(inside(run.diagnostics, "spectrum", of))
        points = [(k + 1.0, v) for k, v in enumerate(values or []) if v >= LEAST]
        if points:
            series.append(Series(name, points))
    if not series:
        return None
    chart = Chart(
        title="Singular spectrum",
        series=series,
        start=1.0,
        end=2.0,
        log=True,
        x_label="direction",
    )
    about = (
        "Singular values, the largest being 1. A slow fall uses many directions; "
        "a cliff is where the representation stops using the ones it has."
    )
    keys = legend([s.name for s in series])
    caption = tag("figcaption", tag("h3", chart.title), tag("p", about), keys)
    return tag("figure", caption, line_chart(chart))


def _similarities(run: RunFiles) -> Html | None:
    found = inside(run.diagnostics, "similarities")
    edges = _finite(inside(found, "edges"))
    heights = {k: _finite(inside(found, k)) for k in ("positive", "negative")}
    if edges is None or len(edges) < 2 or sorted(set(edges)) != edges:
        return None
    shown = {
        k: h for k, h in heights.items() if h is not None and len(h) == len(edges) - 1
    }
    highest = max((max(h) for h in shown.values()), default=0)
    if highest <= 0 or min(min(h) for h in shown.values()) < 0:
        return None
    around = axes(
        (edges[0], edges[-1]), (0.0, highest), x_label="cosine", bare=True, right=16
    )
    parts, means = list(around.frame), {}
    for name, tall in reversed(shown.items()):
        spots = [(edges[0], 0.0)]
        for k, y in enumerate(tall):
            spots += [(edges[k], y), (edges[k + 1], y)]
        spots.append((edges[-1], 0.0))
        path = " ".join(f"{around.x_of(x)},{around.y_of(y)}" for x, y in spots)
        parts.append(tag("polygon", class_=f"area {name}", points=path))
        middle = sum(
            y * (b * b - a * a) / 2
            for y, a, b in zip(tall, edges, edges[1:], strict=False)
        )
        whole = sum(
            y * (b - a) for y, a, b in zip(tall, edges, edges[1:], strict=False)
        )
        if whole > 0:
            means[NAMES[name]] = middle / whole
    said = [f"{name} {minus(f'{m:.2f}')}" for name, m in reversed(means.items())]
    average = f"Mean cosine of {' and of '.join(said)}."
    drawing = tag(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"Histogram of cosines. {average}",
    )
    keys = [tag("span", NAMES[name], class_=f"key {name}") for name in shown]
    about = (
        "How alike pairs are, as densities. The less the two overlap, the better "
        f"views of one image are told from other images. {average}"
    )
    caption = tag(
        "figcaption",
        tag("h3", "Similarities"),
        tag("p", about),
        tag("p", *keys, class_="keys"),
    )
    return tag("figure", caption, drawing)


def _finite(values: Any) -> list[float] | None:
    """A list of finite numbers, or None."""
    if not isinstance(values, list):
        return None
    found = [number(value) for value in values]
    kept = [value for value in found if value is not None]
    return kept if kept and len(kept) == len(found) else None
