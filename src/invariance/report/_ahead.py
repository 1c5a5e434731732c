"""How far ahead a run on sequences predicts: a line per encoder, a point per step."""

from typing import Any

from ..folder import TRAINED, Cell, Record, finite_number
from ..markup import Html, lines, tag
from ..words import count
from ._charts import Chart, Series, legend, line_chart
from ._html import Missing

PROTOCOL = "steps_ahead"


def read_ahead(run: Record) -> dict[str, dict[int, Cell]]:
    """Nats of every step ahead, by features."""
    scores = run.scores
    cells: dict[str, dict[int, Cell]] = {}
    for line in scores.lines:
        step = dict(line.asked).get("ahead")
        ours = line.protocol == PROTOCOL and line.usual and line.data == scores.data
        if not ours or step is None:
            continue
        for name, cell in line.cells.items():
            cells.setdefault(name, {})[int(step)] = cell
    return {name: dict(sorted(steps.items())) for name, steps in cells.items()}


def count_steps(steps: dict[int, Cell]) -> int:
    """How many steps in a row, from the first on, are surely above nothing."""
    n = 0
    for k, cell in enumerate(steps.values(), 1):
        if cell.ends[0] <= 0:
            break
        n = k
    return n


def show_ahead(run: Record) -> Html:
    """The chart, and how to read it; nothing where nothing was predicted."""
    read = read_ahead(run)
    if not read:
        return Missing("")
    series = [
        Series(name, [(float(k), cell.mean) for k, cell in steps.items()])
        for name, steps in read.items()
    ]
    last = max(k for steps in read.values() for k in steps)
    chart = Chart(
        "Nats of information",
        series,
        end=float(last),
        start=min(1.0, last - 1.0),
        x_label="patches ahead",
    )
    drawing = tag("figure", legend([s.name for s in series]), line_chart(chart))
    parts = [
        tag("div", drawing, class_="charts wide"),
        tag("p", explain(run), class_="note"),
    ]
    if TRAINED in read:
        n = count_steps(read[TRAINED])
        far = f"It predicts {count(n, 'patch', 'patches')} ahead"
        nothing = "Not even the next patch is predicted"
        text = f"{far}: up to there, the information is clearly above 0 nats."
        parts.insert(0, tag("p", text if n else f"{nothing}."))
    return lines(*parts)


def explain(run: Record) -> str:
    """What the numbers are, and whether they are certified."""
    rows = [row for row in run.rows or [] if row.get("protocol") == PROTOCOL]
    settings: list[dict[str, Any]] = [row.get("settings") or {} for row in rows]
    ceilings = [finite_number(s.get("ceiling")) for s in settings]
    known = [x for x in ceilings if x is not None]
    most = (
        f" It cannot pass {min(known):.2f}, the log of the number of candidates."
        if known
        else ""
    )
    certified = all(s.get("certified") for s in settings)
    what = (
        "on average a lower bound, on windows that were never trained on"
        if certified
        else "an estimate, not a bound, since windows of one recording resemble each "
        "other"
    )
    return (
        "Information in nats between a window so far and the code of a later patch: "
        f"{what}.{most}"
    )
