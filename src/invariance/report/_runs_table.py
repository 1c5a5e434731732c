"""The runs of a comparison as a table: ``page.js`` lets it sort, and runs be hidden."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..folder import (
    MEASURES,
    TRAINED,
    Record,
    finite_number,
    list_measures,
    read_verdict,
)
from ..markup import Html, lines, tag
from ..words import show_duration
from ._charts import color_of, hide_box
from ._facts import find_setting, name_task
from ._html import scroll
from ._numbers import minus, show_number
from ._score_table import read_information, read_rank, show_score

MOST_MEASURES = 3


@dataclass(frozen=True)
class Cell:
    """What is shown, what is below it, and what a column is sorted by."""

    text: str
    value: float | str | None = None
    """None goes to the end, whichever way it is sorted."""
    below: str = ""


def show_runs(runs: Sequence[Record], names: Sequence[str]) -> Html:
    """A row per run; a column that no run has a value in is left out."""
    measures = [p for p in MEASURES if any(p in list_measures(run) for run in runs)]
    columns = {
        "verdict": [_verdict(run) for run in runs],
        **{
            MEASURES[protocol].title: [_score(run, protocol) for run in runs]
            for protocol in measures[:MOST_MEASURES]
        },
        "nats shared": [_number(read_information(run)[0]) for run in runs],
        "rank": [_number(read_rank(run)[0]) for run in runs],
        "epochs": [_epochs(run) for run in runs],
        "batch": [
            _number(finite_number(find_setting(run, "batch_size"))) for run in runs
        ],
        "training": [_time(run) for run in runs],
    }
    columns = {
        title: cells
        for title, cells in columns.items()
        if any(cell.value is not None for cell in cells)
    }
    head = [tag("th", title, scope="col") for title in ("run", *columns)]
    rows = [
        tag(
            "tr",
            _name(k, run, name),
            *(_show(cells[k]) for cells in columns.values()),
        )
        for k, (run, name) in enumerate(zip(runs, names, strict=True))
    ]
    caption = tag("caption", "The runs", class_="unseen")
    body = tag("tbody", lines(*rows))
    whole = tag(
        "table",
        caption,
        tag("thead", tag("tr", *head)),
        body,
        class_="numbers runs sortable",
    )
    about = (
        "Click a heading to sort by its column. Uncheck a run to leave it out below."
    )
    return lines(
        scroll(whole, "The runs"),
        tag("p", about, class_="note needs-script"),
        tag("p", id="sorted", class_="unseen", role="status"),
    )


def _name(k: int, run: Record, name: str) -> Html:
    swatch = tag("i", class_=f"swatch {color_of(k)}")
    label = tag("label", hide_box(k), swatch, name)
    below = tag("small", name_task(run) if run.config else "settings not known")
    return tag("th", label, below, scope="row", data_value=name)


def _show(cell: Cell) -> Html:
    below = tag("small", cell.below) if cell.below else Html()
    return tag("td", cell.text, below, data_value=cell.value)


def _verdict(run: Record) -> Cell:
    title = read_verdict(run)[0].title
    return Cell(title, title)


def _score(run: Record, protocol: str) -> Cell:
    cell = run.scores.cell(TRAINED, protocol)
    if cell is None:
        return Cell("–")
    measure = MEASURES[protocol]
    low, high = (show_score(end, measure.share) for end in cell.ends)
    below = f"{low} to {high}" if low != high else ""
    return Cell(minus(measure.show(cell.mean)), round(cell.mean, 6), below)


def _number(value: float | None) -> Cell:
    return Cell("–") if value is None else Cell(show_number(value), value)


def _epochs(run: Record) -> Cell:
    if run.finished or not run.readings:
        return _number(run.epochs)
    epoch = run.readings[-1]["epoch"]
    of = "" if run.epochs is None else f" of {run.epochs:g}"
    return Cell(f"{show_number(epoch)}{of}", epoch, "unfinished")


def _time(run: Record) -> Cell:
    seconds = run.seconds
    return Cell("–") if seconds is None else Cell(show_duration(seconds), seconds)
