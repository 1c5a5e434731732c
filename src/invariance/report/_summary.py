"""The summary: a few figures at the top, and the table of scores."""

from collections.abc import Mapping, Sequence

from ._files import RunFiles
from ._html import Html, Missing, lines, table, tag
from ._numbers import counted, number, told
from ._scores import METRICS, Cell, Line, Scores, tabulated

TRAINED = "trained encoder"
BELOW = {
    "raw pixels": "no training at all",
    "untrained encoder": "before training",
    TRAINED: "final epoch",
    "best epoch": "chosen on training images",
    "supervised twin": "trained on all labels",
}


def figures(run: RunFiles) -> Html:
    """The numbers to remember, large."""
    scores, found = run_scores(run), []
    for protocol, name in (("linear", "linear probe"), ("knn", "kNN")):
        cell, was = (scores.cell(f, protocol) for f in (TRAINED, "untrained encoder"))
        if cell is not None:
            before = "" if was is None else f"untrained {told(was.mean, True)}"
            found.append((name, told(cell.mean, True), before))
    nats, ceiling = run.last("mi_nats"), run.last("mi_ceiling")
    if nats is not None:
        most = "" if ceiling is None else f"nats, of {ceiling:.2f} at most"
        found.append(("shared information", f"{nats:.2f}", most or "nats"))
    if (rank := run.last("effective_rank")) is not None:
        found.append(("effective rank", told(rank), "directions the projections use"))
    if not found:
        return Html()
    pairs = [
        tag(
            "div",
            tag("dt", name),
            tag("dd", tag("b", value), tag("small", below)),
        )
        for name, value, below in found
    ]
    return tag("dl", lines(*pairs), class_="figures")


def scored(run: RunFiles) -> Html:
    """The table of scores, or why there is none."""
    if not run.scores:
        return Missing(f"No scores: {why_no_scores(run)}.")
    scores = run_scores(run)
    heads = {name: headed(name) for name in scores.features}
    return lines(score_table(scores, heads), *notes(run, scores))


def why_no_scores(run: RunFiles) -> str:
    """What stands where scores would."""
    if run.config.get("evaluate") is False:
        return "evaluation was switched off"
    if not run.finished:
        return "the run is not finished"
    if run.labelled is False:
        return "there are no labels in these data"
    return "there is no whole evaluation.jsonl"


def headed(features: str) -> Html:
    """The heading of a column, with what the features are."""
    below = BELOW.get(features)
    return Html(tag("span", features) + (tag("small", below) if below else ""))


def score_table(scores: Scores, heads: Mapping[str, object]) -> Html:
    """A line a protocol, a column a kind of features (or a run)."""
    rows = [
        [
            entitled(line, with_data=line.data != scores.data),
            *(
                shown(line.cells[name], line.share, own=name == TRAINED)
                if name in line.cells
                else tag("span", "–", class_="none", aria_label="not measured")
                for name in heads
            ),
        ]
        for line in scores.lines
    ]
    return table(["", *heads.values()], rows, label="Scores", kind="numbers scores")


def entitled(line: Line, *, with_data: bool) -> Html:
    """What a line measures."""
    said = []
    if line.metric != "accuracy":
        said.append(METRICS.get(line.metric, line.metric))
    for key, value in line.settings:
        share = number(value)
        if key == "share" and share is not None:
            said.append(f"{100 * share:g} % of them")
        elif key == "n_labels":
            said.append(f"{value} labels")
        else:
            said.append(f"{key} = {value}" if key == "k" else f"{key} {value}")
    if with_data:
        said.append(f"on {line.data}")
    return Html(tag("span", line.title) + tag("small", ", ".join(said)))


def shown(cell: Cell, share: bool, own: bool = False) -> Html:
    """A value, how sure it is, and a bar as long as it."""
    value, below = told_score(cell.mean, share), ""
    if cell.spread is not None:
        value += f" ± {told_score(cell.spread, share)}"
        below = counted(len(cell.values), cell.each)
    elif cell.interval is not None:
        low, high = (told_score(end, share) for end in cell.interval)
        below = f"{low} to {high}"
    unit = " %" if share else ""
    parts = (tag("span", value + unit, class_="value"), bar(cell), tag("small", below))
    return tag("div", *parts, class_="own" if own else None)


def told_score(value: float, share: bool) -> str:
    """In per cent, or as it is.

    >>> told_score(0.9384, True), told_score(0.9384, False)
    ('93.8', '0.938')
    """
    return f"{100 * value:.1f}" if share else f"{value:.3f}"


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


def notes(run: RunFiles, scores: Scores) -> list[Html]:
    """How the scores came about."""
    said = []
    if scores.n_test is not None:
        tested = counted(scores.n_test, "test image")
        said.append(f"{tested} of {scores.data} that were never trained on.")
    cells = [cell for line in scores.lines for cell in line.cells.values()]
    if any(cell.interval for cell in cells):
        said.append(
            "Below a value is its 95 % interval, which covers the draw of the test "
            "images, not the seed of the training."
        )
    if any(cell.spread is not None for cell in cells):
        said.append("± is the standard deviation over draws or seeds.")
    if TRAINED in scores.features and "best epoch" not in scores.features:
        said.append("The final epoch is scored; none was chosen by its score.")
    texts = [" ".join(said), " ".join(scores.notes)]
    return [tag("p", text, class_="note") for text in texts if text]


def run_scores(run: RunFiles) -> Scores:
    """The table of a run."""
    return tabulated(run.scores or [], run.config.get("data", ""))


def summary(run: RunFiles) -> str:
    """The run in a line."""
    config = run.config
    if not config:
        return "The settings of this run are not known."
    text = f"{config.get('method', '?')} on {config.get('data', '?')}"
    text += f", {config.get('epochs', '?')} epochs"
    return f"{text}, batches of {config.get('batch_size', '?')}"


def listed(words: Sequence[str]) -> str:
    """Words joined as a person would.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
