"""Rows of scores as a table: measures down, kinds of features across, mean and spread.

With one value a cell shows its 95 % interval over the test images; with several, their
mean ± standard deviation: over runs where there are several, else over draws and seeds.
Runs of several settings are not averaged: each setting is a line below the measure.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

ORDER = (
    "raw pixels",
    "untrained encoder",
    "trained encoder",
    "best epoch",
    "supervised twin",
)
METHODS = {
    "knn": "kNN",
    "linear": "linear probe",
    "linear_sgd": "linear, SGD",
    "fine_tune": "fine-tuned",
    "supervised": "supervised",
    "few_labels_linear": "linear",
    "few_labels_fine_tune": "fine-tuned",
}
FEW = 10
METRICS = {"map": "MAP", "nmi": "clusters, NMI", "ari": "clusters, ARI"}


def measure(row: Row) -> str:
    """What a row measures, in a few words.

    >>> measure({"protocol": "few_labels_linear", "metric": "accuracy",
    ...          "settings": {"share": 0.01, "n_labels": 60}})
    '60 labels (1 %), linear'
    """
    protocol, metric = str(row["protocol"]), str(row["metric"])
    settings = row["settings"]
    if metric != "accuracy":
        return METRICS.get(metric, metric)
    name = METHODS.get(protocol, protocol)
    if protocol == "knn":
        return f"{name}, k={settings['k']}, T={settings['temperature']:g}"
    if "share" in settings:
        share = f"{100 * settings['share']:g} %"
        return f"{settings['n_labels']:,} labels ({share}), {name}"
    return name


def table(rows: Iterable[Row]) -> list[str]:
    """Lines to print, a block for each data set."""
    rows = list(rows)
    lines: list[str] = []
    for data in dict.fromkeys(row["data"] for row in rows):
        lines += block([row for row in rows if row["data"] == data], data)
    return lines


def block(rows: Sequence[Row], data: str) -> list[str]:
    """The table of one data set."""
    kinds = dict.fromkeys(row["features"] for row in rows)
    columns = sorted(kinds, key=lambda k: ORDER.index(k) if k in ORDER else len(ORDER))
    body = [
        (name, [cell([r for r in own if r["features"] == c]) for c in columns])
        if own
        else (name, [""] * len(columns))
        for name, own in by_line(rows)
    ]
    first = max(len(data), *(len(name) for name, _ in body)) + 2
    widths = [
        max(len(c), *(len(cells[k]) for _, cells in body)) + 2
        for k, c in enumerate(columns)
    ]
    lines = [
        f"{name:<{first}}"
        + "".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True))
        for name, cells in [(data, columns), *body]
    ]
    lines = [line.rstrip() for line in lines]
    n_test = max(row["n_test"] for row in rows)
    images = "test image" if n_test == 1 else "test images"
    lines.append(f"{about(rows)} {n_test:,} {images}, never trained on.")
    if n_test < FEW:
        lines.append(
            f"So few test images (under {FEW}) tell next to nothing: one of them moves "
            f"an accuracy by {100 / n_test:.0f} points."
        )
    return lines


def by_line(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """What each line is called, and its rows; a title over settings has none."""
    found: list[tuple[str, list[Row]]] = []
    for m in dict.fromkeys(measure(row) for row in rows):
        own = [row for row in rows if measure(row) == m]
        settings = list(dict.fromkeys(row.get("setting") for row in own))
        if settings == [None]:
            found.append((m, own))
            continue
        found.append((m, []))
        for setting in settings:
            some = [row for row in own if row.get("setting") == setting]
            found.append((f"  {setting}", some))
    return found


def cell(rows: Sequence[Row]) -> str:
    """In per cent: one value with its interval, or the mean of several ± spread."""
    if not rows:
        return "-"
    values = spread_over(rows)
    if len(values) > 1:
        mean, spread = statistics.fmean(values), statistics.stdev(values)
        return f"{100 * mean:.1f} ± {100 * spread:.1f}"
    if rows[0]["interval"] is None or len(rows) > 1:
        return f"{100 * values[0]:.1f}"
    low, high = rows[0]["interval"]
    return f"{100 * values[0]:.1f} ({100 * low:.1f}-{100 * high:.1f})"


def spread_over(rows: Sequence[Row]) -> list[float]:
    """A value for each run where there are several, else for each draw and seed."""
    by_run: dict[Any, list[float]] = {}
    for row in rows:
        by_run.setdefault(row.get("run"), []).append(row["value"])
    if len(by_run) > 1:
        return [statistics.fmean(values) for values in by_run.values()]
    return next(iter(by_run.values()))


def about(rows: Sequence[Row]) -> str:
    """How to read the cells."""
    n_runs = len({row.get("run") for row in rows})
    of = f"{n_runs} runs" if n_runs > 1 else "draws and seeds"
    if len({row.get("setting") for row in rows}) > 1:
        of = "the runs of a line, or draws and seeds where it has one"
    return (
        "In per cent; in brackets the 95 % interval over the test images, ± the "
        f"standard deviation over {of}."
    )
