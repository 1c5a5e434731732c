"""A few figures at the top of the page, and the table of scores."""

import dataclasses
from collections.abc import Mapping, Sequence

from ..folder import (
    MEASURES,
    TRAINED,
    UNTRAINED,
    Cell,
    Line,
    Record,
    Scores,
    describe_limit,
    finite_number,
    list_measures,
)
from ..markup import Html, lines, tag
from ..readings import Reading
from ..words import count
from ._ahead import PROTOCOL as AHEAD
from ._diagnostics import read_readings
from ._html import Missing, table
from ._numbers import minus, show_number

ENDLESS = {"nats", "mae"}  # metrics that may be above 1
BELOW = {
    "chance": "guessing",
    "raw pixels": "no training at all",
    UNTRAINED: "before training",
    TRAINED: "final epoch",
    "best epoch": "chosen on training samples",
    "supervised twin": "trained on all labels",
}


def figures(run: Record) -> Html:
    """The numbers to remember, large."""
    scores, items = run.scores, []
    for protocol in list_measures(run)[:2]:
        cell, was = (scores.cell(f, protocol) for f in (TRAINED, UNTRAINED))
        measure = MEASURES[protocol]
        if cell is not None:
            before = "" if was is None else f"untrained {minus(measure.show(was.mean))}"
            items.append((measure.title, minus(measure.show(cell.mean)), before))
    nats, below = read_information(run)
    if nats is not None:
        items.append(("shared information", minus(f"{nats:.2f}"), below))
    directions, below = read_rank(run)
    if directions is not None:
        items.append(("effective rank", show_number(directions), below))
    if not items:
        return Html()
    pairs = [
        tag(
            "div",
            tag("dt", name),
            tag("dd", tag("b", value), tag("small", below)),
        )
        for name, value, below in items
    ]
    return tag("dl", lines(*pairs), class_="figures")


def read_information(run: Record) -> tuple[float | None, str]:
    """The nats that two views share, and what they are of.

    Read of images that were not trained on, where that was done; else while training.
    """
    read = _find_reading(run, "mutual information")
    nats = run.mean_of_last_epoch("mi_nats")
    limit = describe_limit(run.readings[-1]) if run.readings else ""
    if read is not None:
        nats = finite_number(read.value)
        limit = describe_limit(
            {"mi_ceiling": read.ceiling, "mi_reachable": read.reachable}
        )
    return nats, f"nats, of at most {limit}" if limit else "nats"


def read_rank(run: Record) -> tuple[float | None, str]:
    """The effective rank of the projections, and what it counts; read as the nats."""
    read = _find_reading(run, "effective rank")
    if read is not None:
        return finite_number(read.value), "directions the projections use"
    return run.mean_of_last_epoch("effective_rank"), "directions per batch"


def _find_reading(run: Record, name: str) -> Reading | None:
    """That of the projections, with no settings of its own."""
    readings = [r for r in read_readings(run) if (r.name, r.of) == (name, "z")]
    return next((r for r in readings if not r.settings), None)


def show_scores(run: Record) -> Html:
    """The table of scores, or why there is none."""
    if not run.rows:
        return Missing(f"No scores: {why_no_scores(run)}.")
    by_label = [line for line in run.scores.lines if line.protocol != AHEAD]
    scores = dataclasses.replace(run.scores, lines=by_label)
    if not by_label:
        return Missing("No scores by label: there are no labels in these data.")
    heads = {name: head(name, finished=run.finished) for name in scores.features}
    return lines(score_table(scores, heads), *notes(run, scores))


def why_no_scores(run: Record) -> str:
    """What stands where scores would."""
    if run.config.get("evaluate") is False:
        return "evaluation was switched off"
    if not run.finished:
        return "the run is not finished"
    if run.labeled is False:
        return "there are no labels in these data"
    return "evaluation.jsonl is missing or incomplete"


def head(features: str, *, finished: bool) -> Html:
    """The heading of a column, with what the features are."""
    below = BELOW.get(features, BELOW["raw pixels"])  # of other samples, a baseline
    if features == TRAINED and not finished:
        below = "from a checkpoint"
    return Html(tag("span", features) + (tag("small", below) if below else ""))


def score_table(
    scores: Scores, heads: Mapping[str, object], runs: Sequence[int | None] = ()
) -> Html:
    """A line per protocol, a column per kind of features, or per run."""
    rows = [
        [
            title(line, with_data=line.data != scores.data),
            *(
                show_cell(line, name)
                if name in line.cells
                else tag("span", "–", class_="none", aria_label="not measured")
                for name in heads
            ),
        ]
        for line in scores.lines
    ]
    kind = "numbers scores"
    return table(["", *heads.values()], rows, label="Scores", kind=kind, runs=runs)


def title(line: Line, *, with_data: bool) -> Html:
    """What a line measures."""
    on = f"on {line.data}" if with_data else ""
    name = line.name[:1].upper() + line.name[1:] if line.name.islower() else line.name
    detail = ", ".join(filter(None, [line.detail, on]))
    return Html(tag("span", name) + tag("small", detail))


def show_cell(line: Line, features: str) -> Html:
    """A value, how sure it is, and a bar as long as it where that has an end."""
    cell, share = line.cells[features], line.share
    value, below = show_score(cell.mean, share), ""
    if cell.spread is not None:
        repeats = count(len(cell.values), cell.repeated)
        below = f"± {show_score(cell.spread, share)}, {repeats}"
    elif cell.interval is not None:
        low, high = (show_score(end, share) for end in cell.interval)
        below = f"{low} to {high}"
    unit = " %" if share else ""
    length = Html() if line.metric in ENDLESS else bar(cell)
    parts = (tag("span", value + unit, class_="value"), length, tag("small", below))
    return tag("div", *parts, class_="own" if features == TRAINED else None)


def show_score(value: float, share: bool) -> str:
    """In per cent, or as it is.

    >>> show_score(0.9384, True), show_score(0.9384, False)
    ('93.8', '0.938')
    """
    if share:
        return f"{100 * value:.1f}"
    return minus(f"{round(value, 3) + 0.0:.3f}")  # no "-0.000"


def bar(cell: Cell) -> Html:
    """The value from 0 to 1, and a line over its interval."""
    low, high = (100 * min(max(end, 0.0), 1.0) for end in cell.ends)
    width = round(100 * min(max(cell.mean, 0.0), 1.0), 1)
    parts = [
        tag("rect", class_="track", width=100, height=3, y=2),
        tag("rect", class_="fill", width=width, height=3, y=2),
    ]
    if high > low:
        left, wide = round(low, 1), round(high - low, 1)
        parts.append(tag("rect", class_="span", x=left, width=wide, height=7))
    return tag(
        "svg",
        *parts,
        class_="bar",
        viewBox="0 0 100 7",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def notes(run: Record, scores: Scores) -> list[Html]:
    """How the scores came about."""
    texts = []
    if scores.n_test is not None:
        tested = count(scores.n_test, f"test {scores.word}")
        texts.append(f"{tested} of {scores.data}, held out.")
    cells = [cell for line in scores.lines for cell in line.cells.values()]
    if any(cell.interval for cell in cells):
        texts.append(
            "Below a value is its 95 % interval, which covers the choice of test "
            f"{scores.word}s, not the seed of the training."
        )
    if any(cell.spread is not None for cell in cells):
        texts.append("± is the standard deviation over draws or seeds.")
    if TRAINED in scores.features and not run.finished:
        texts.append("The run is not finished: its newest checkpoint was scored.")
    elif TRAINED in scores.features and "best epoch" not in scores.features:
        texts.append("The final epoch is scored; it was not chosen by its score.")
    both = [" ".join(texts), " ".join(scores.notes)]
    return [tag("p", text, class_="note") for text in both if text]
