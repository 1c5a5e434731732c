"""Which readings are drawn, and how to read each; several runs lie over each other."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

from ..folder import Record, describe_limit, find_reachable, finite_number
from ..markup import Html, lines, tag
from ._charts import Chart, Series, choices, legend, line_chart
from ._html import Missing, figure, table
from ._numbers import show_number

T = TypeVar("T")
MOST_POINTS = 400
FEW_RUNS = 4  # of which single batches can be drawn without hiding the means
NUMBERS = (
    "A line shows the mean over the epoch that ends there{faint}. The number beside "
    "it is its last value, the mean over the last epoch. The learning rate is not "
    "averaged."
)
FAINT = "; single batches are faint behind it"

# Title and caption of a line that shares its chart, where it has one of its own.
ALONE = {
    "accuracy": ("Views matched", "How often a view finds its partner in the batch."),
    "knn": ("kNN accuracy", "By the labels, among training samples."),
    "alignment": ("Alignment", "Lower is better: views of one sample close together."),
    "uniformity": ("Uniformity", "Lower is better: samples spread out."),
    "kept/batch_nats": (
        "Information of kept epochs, by a batch",
        "In nats, held-out samples first.",
    ),
    "kept/pool_nats": (
        "Information of kept epochs, by the pool",
        "In nats, among a hundred times as many samples, held-out ones first.",
    ),
    "kept/knn": ("Held-out kNN of kept epochs", "On held-out samples."),
    "kept/linear": (
        "Linear probe of kept epochs",
        "On held-out samples.",
    ),
}


@dataclass(frozen=True)
class Curve:
    """One small chart."""

    title: str
    keys: dict[str, str]
    """Name of each line, by its key in metrics.jsonl."""
    about: str
    percent: bool = False
    zero: bool = True
    limited: bool = False
    """Whether a dashed line says how far an information bound can rise."""


CURVES = (
    Curve("Loss", {"loss": "loss"}, "Of a batch; lower is better.", zero=False),
    Curve(
        "Information",
        {"mi_nats": "nats"},
        "Lower bound, in nats, on what two views share; read from training batches, "
        "so it certifies nothing.",
        limited=True,
    ),
    Curve(
        "Views matched, and kNN",
        {"accuracy": "views matched", "knn": "kNN"},
        "How often a view finds its partner in the batch; kNN is by the labels, among "
        "training samples.",
        percent=True,
    ),
    Curve(
        "Alignment and uniformity",
        {"alignment": "alignment", "uniformity": "uniformity"},
        "Lower is better: views close together, samples spread out.",
    ),
    Curve(
        "Effective rank",
        {"effective_rank": "rank"},
        "Directions in which a batch varies; near 1 is a collapse.",
    ),
    Curve(
        "Spread",
        {"spread": "spread"},
        "Of the projections; 1 is even, below 0.1 is a collapse.",
    ),
    Curve(
        "Effective sample size",
        {"ess": "ESS"},
        "Share of the negatives that count; healthy from 5 to 80 %.",
        percent=True,
    ),
    Curve(
        "Agreement of clients",
        {"federated/agreement": "agreement"},
        "In each round, weighted: square of the mean update over the mean square. 1: "
        "all clients go the same way; one over their number: each goes its own way.",
        percent=True,
    ),
    Curve(
        "Information of kept epochs",
        {"kept/batch_nats": "nats of a batch", "kept/pool_nats": "of the pool"},
        "In nats: what a batch shows, and what a pool a hundred times as large "
        "shows; held-out samples first.",
    ),
    Curve(
        "Accuracy of kept epochs",
        {"kept/knn": "held-out kNN", "kept/linear": "linear probe"},
        "On held-out samples, with the encoder of that epoch.",
        percent=True,
    ),
    Curve("Learning rate", {"lr": "rate"}, "As scheduled."),
    Curve("Speed", {"time/images_per_second": "speed"}, "Samples per second."),
)


def curves(run: Record) -> Html:
    """All charts that have something to show, then the same as a table."""
    drawn = draw_curves(run)
    if isinstance(drawn, Missing):
        return drawn
    whole = tag("summary", "The readings as a table: the mean over each epoch")
    return lines(
        tag("p", NUMBERS.format(faint=FAINT), class_="note"),
        drawn,
        tag("details", whole, _as_table(run)),
    )


def draw_curves(run: Record) -> Html:
    """A chart for each curve that has something to show."""
    drawn = [_figure(run, curve, chart) for curve, chart in make_charts(run)]
    if not drawn:
        return Missing("No curves: there are no readings to draw.")
    return tag("div", lines(*drawn), class_="charts")


def overlay_curves(
    runs: Sequence[Record], names: list[str], *, hideable: bool = True
) -> Html:
    """A chart per reading, with a line for each run, always in the same color.

    Args:
        runs: What to draw.
        names: What each is called.
        hideable: Whether the page has the script that hides runs.
    """
    charts, few = overlay_charts(runs, names), len(runs) <= FEW_RUNS
    drawn = [figure(chart.title, about, line_chart(chart)) for chart, about in charts]
    if not drawn:
        return tag("p", "There are no readings to draw.")
    return lines(
        tag("p", NUMBERS.format(faint=FAINT if few else ""), class_="note"),
        choices(names) if hideable else legend(names),
        tag("div", lines(*drawn), class_="charts"),
    )


def make_charts(run: Record) -> list[tuple[Curve, Chart]]:
    """A chart per kind of reading that the run has, with all of its lines."""
    charts = []
    for curve in CURVES:
        series = [_series(name, run, key) for key, name in curve.keys.items()]
        series = [one for one in series if one.points]
        if not series:
            continue
        most = find_reachable(run.readings[-1]) if curve.limited else None
        ceiling = None
        if most is not None:
            ceiling = (f"at most {describe_limit(run.readings[-1])}", most)
        chart = Chart(
            title=curve.title,
            series=series,
            end=max(run.epochs or 1.0, 1.0),
            ceiling=ceiling,
            percent=curve.percent,
            zero=curve.zero,
        )
        charts.append((curve, chart))
    return charts


def overlay_charts(runs: Sequence[Record], names: list[str]) -> list[tuple[Chart, str]]:
    """A chart per reading with a line for each run, and what it shows in words."""
    charts, few = [], len(runs) <= FEW_RUNS
    # as far as any has come: the plan of one that has begun would squeeze the others
    end = max([1.0, *(run.readings[-1]["epoch"] for run in runs if run.readings)])
    for curve in CURVES:
        for key in curve.keys:
            both = zip(names, runs, strict=True)
            series = [_series(name, run, key, raw=few) for name, run in both]
            if not any(one.points for one in series):
                continue
            title, about = ALONE.get(key, (curve.title, curve.about))
            chart = Chart(
                title=title,
                series=series,
                end=end,
                percent=curve.percent,
                zero=curve.zero,
                runs=True,
            )
            charts.append((chart, about))
    return charts


def _figure(run: Record, curve: Curve, chart: Chart) -> Html:
    about, readings = [curve.about], [*run.readings, *run.kept]
    points = [run.points(key) for key in curve.keys]
    if missing := sum(key in r for r in readings for key in curve.keys) - sum(
        map(len, points)
    ):
        about.append(f"Left out: {missing} that are not finite numbers.")
    if any(len(line) > MOST_POINTS for line in points):
        about.append("Readings between the points are not drawn.")
    keys = legend([s.name for s in chart.series]) if len(curve.keys) > 1 else Html()
    return figure(chart.title, " ".join(about), line_chart(chart), keys)


def _series(name: str, run: Record, key: str, *, raw: bool = True) -> Series:
    """Means over an epoch, and the readings behind them; the learning rate as it is."""
    points = run.points(key)
    shown = thin(points)
    means = shown if key == "lr" else smooth(points)
    return Series(name, means, raw=shown if raw and means != shown else [])


def smooth(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Where ``thin`` leaves a point, the mean over the epoch that ends there.

    >>> smooth([(0.5, 4.0), (1.0, 2.0), (1.5, 0.0)])
    [(0.5, 4.0), (1.0, 3.0), (1.5, 1.0)]
    """
    epochs = [epoch for epoch, _ in points]
    means = []
    for k in thin(range(len(points))):
        first = bisect_right(epochs, epochs[k] - 1, hi=k)
        means.append((epochs[k], fmean(value for _, value in points[first : k + 1])))
    return means


def name_runs(runs: Sequence[Record]) -> list[str]:
    """A name each: the folder's, with its parent's where two are called the same."""
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [f"{run.folder.resolve().parent.name}/{run.name}" for run in runs]
    if len(set(names)) < len(names):
        names = [f"{name} ({k})" for k, name in enumerate(names, 1)]
    return names


def thin(points: Sequence[T]) -> list[T]:
    """Evenly chosen, the last among them, so that a long run makes a small file.

    >>> thin(range(1001))[-2:]
    [997, 1000]
    """
    return list(points[::-1][:: -(-len(points) // MOST_POINTS) or 1][::-1])


def _as_table(run: Record) -> Html:
    kinds = [(key, name, c) for c in CURVES for key, name in c.keys.items()]
    kinds = [kind for kind in kinds if run.points(kind[0])]
    epochs: dict[float, list[dict[str, Any]]] = {}
    for reading in sorted([*run.kept, *run.readings], key=lambda r: r["epoch"]):
        epochs.setdefault(-(-reading["epoch"] // 1), []).append(reading)
    rows: list[list[object]] = []
    for readings in epochs.values():
        row: list[object] = [show_number(readings[-1]["epoch"])]
        for key, _, curve in kinds:
            given = [reading[key] for reading in readings if key in reading]
            values = [v for v in map(finite_number, given) if v is not None]
            absent = "not finite" if given else ""
            row.append(show_number(fmean(values), curve.percent) if values else absent)
        rows.append(row)
    head = ["epoch", *(name for _, name, _ in kinds)]
    return table(head, rows, label="Readings by epoch", kind="numbers")
