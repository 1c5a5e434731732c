"""What the diagnostics read: readings beside their ideals, spectrum, similarities.

A reading such as the gradient's signal to noise is taken many times, for each objective
and batch size: such a family is a small table of numbers of its own.
"""

import shlex
from collections.abc import Sequence
from typing import Any

from ..folder import Record, finite_number
from ..markup import Html, lines, tag
from ..readings import Reading
from ._charts import HEIGHT, WIDTH, Chart, Series, axes, legend, line_chart
from ._html import Missing, figure, table
from ._numbers import inside, minus, show_number

NAMES = {"positive": "two views of one sample", "negative": "two samples"}
LARGE = 4  # members, from which a family has a table of its own
OF = {"h": "features h", "z": "projections z"}
LEAST = 1e-6  # of a singular value beside the largest; what is below is rounding


def show_diagnostics(run: Record) -> Html:
    """All that ``diagnostics.json`` holds, or how to get it."""
    figures = [part for part in (_spectrum(run), _similarities(run)) if part]
    readings = read_readings(run)
    if not figures and not readings:
        where = shlex.quote(str(run.folder))
        return Missing(f"No diagnostics: 'invariance diagnose {where}' writes them.")
    charts = [tag("div", lines(*figures), class_="charts wide")] if figures else []
    return lines(*charts, *([_show_readings(readings)] if readings else []))


def read_readings(run: Record) -> list[Reading]:
    """The readings of ``diagnostics.json``, which may hold a list of anything."""
    values, readings = inside(run.diagnostics, "readings"), []
    for value in values if isinstance(values, list) else []:
        if not isinstance(value, dict):
            continue
        keys = ("value", "ideal", "ceiling", "reachable")
        numbers = {key: finite_number(value.get(key)) for key in keys}
        words = {
            key: str(value.get(key) or "") for key in ("name", "of", "unit", "meaning")
        }
        readings.append(Reading.from_dict({**value, **words, **numbers}))
    return readings


def _show_readings(readings: Sequence[Reading]) -> Html:
    """The main table, then the large families."""
    families: dict[str, list[Reading]] = {}
    for reading in readings:
        families.setdefault(reading.name, []).append(reading)
    large = {
        name: members
        for name, members in families.items()
        if len({reading.label for reading in members}) >= LARGE
    }
    single = [reading for reading in readings if reading.name not in large]
    parts = [_main_table(single)] if single else []
    if large:
        tables = [_family_table(name, members) for name, members in large.items()]
        parts.append(tag("div", lines(*tables), class_="families"))
    return lines(*parts)


def _main_table(readings: Sequence[Reading]) -> Html:
    kinds = list(dict.fromkeys(reading.of for reading in readings))
    by_place = {(reading.label, reading.of): reading for reading in readings}
    rows: list[list[object]] = []
    for label in dict.fromkeys(reading.label for reading in readings):
        pair = [by_place.get((label, of)) for of in kinds]
        texts = [(r.of, r.meaning) for r in pair if r is not None and r.meaning]
        several = len({meaning for _, meaning in texts}) > 1
        meanings = [
            tag("p", *((tag("b", of), " ") if several else ()), meaning)
            for of, meaning in (texts if several else texts[:1])
        ]
        cells = [_reading_cell(r) if r is not None else "" for r in pair]
        rows.append([label or "?", *cells, lines(*meanings)])
    head = ["reading", *(OF.get(of, of) for of in kinds), "what it says"]
    return table(head, rows, label="Diagnostics", kind="readings")


def _reading_cell(reading: Reading) -> Html:
    """The value, and what it would be at best."""
    finite = finite_number(reading.value)
    value = "not finite" if finite is None else show_number(finite)
    below = ""
    if reading.ideal is not None:
        below = f"ideal {show_number(reading.ideal)}"
    elif reading.most is not None:
        below = f"at most {show_number(reading.most)}"
    unit = f" {reading.unit}" if reading.unit else ""
    return Html(tag("span", value + unit) + tag("small", below))


def _family_table(name: str, readings: Sequence[Reading]) -> Html:
    """The first setting down; the second, or h and z, across."""
    cells: dict[tuple[str, str], Reading] = {}
    for reading in readings:
        words, of = reading.setting_words, OF.get(reading.of, reading.of)
        row, column = words if len(words) == 2 else (", ".join(words), of)
        cells[row or name, column] = reading
    columns = list(dict.fromkeys(column for _, column in cells))
    rows: list[list[object]] = []
    for row in dict.fromkeys(row for row, _ in cells):
        values = [
            finite_number(cells[row, column].value) if (row, column) in cells else None
            for column in columns
        ]
        shown = ["–" if value is None else minus(f"{value:.3f}") for value in values]
        rows.append([row, *shown])
    example = tag("p", f"For example: {readings[-1].meaning}", class_="note")
    body = table(["", *columns], rows, label=name, kind="numbers small")
    return tag("div", tag("h3", name[:1].upper() + name[1:]), example, body)


def _spectrum(run: Record) -> Html | None:
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
        "Singular values, relative to the largest. A slow fall means that many "
        "directions are used; after a cliff, the rest are hardly used."
    )
    keys = legend([s.name for s in series])
    return figure(chart.title, about, line_chart(chart), keys)


def _similarities(run: Record) -> Html | None:
    histograms = inside(run.diagnostics, "similarities")
    edges = _finite(inside(histograms, "edges"))
    heights = {k: _finite(inside(histograms, k)) for k in ("positive", "negative")}
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
    texts = [f"{name} {minus(f'{m:.2f}')}" for name, m in reversed(means.items())]
    average = f"Mean cosine of {' and of '.join(texts)}."
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
        f"views of one sample are told from other samples. {average}"
    )
    return figure("Similarities", about, drawing, tag("p", *keys, class_="keys"))


def _finite(values: Any) -> list[float] | None:
    """A list of finite numbers, or None."""
    if not isinstance(values, list):
        return None
    numbers = [finite_number(value) for value in values]
    kept = [value for value in numbers if value is not None]
    return kept if kept and len(kept) == len(numbers) else None
