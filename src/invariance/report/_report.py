"""``write_report``: the files of a run folder in, one HTML file out.

Made from the folder alone, so it can be made again at any time.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InvarianceError
from ._curves import curves
from ._files import RunFiles, inside, number, read_run
from ._html import Html, lines, table, tag
from ._page import page, section
from ._settings import again, environment, settings
from ._verdict import verdict

NAME = "report.html"


def write_report(folder: str | Path, defaults: Mapping[str, Any] | None = None) -> Path:
    """Write ``report.html`` into a run folder and return its path.

    Args:
        folder: Of a run, finished or not; files may be missing or half written.
        defaults: What the settings are when nobody sets them, nested as in
            config.yaml; what differs is then marked.
    """
    run = read_run(Path(folder))
    path, part = run.folder / NAME, run.folder / f"{NAME}.part"
    # names of files may hold what no encoding can write
    text = str(report(run, defaults)).encode("utf-8", errors="replace")
    try:
        part.write_bytes(text)
        part.replace(path)
    except OSError as cause:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise InvarianceError(f"Could not write {path}: {cause.strerror}.") from None
    return path


def report(run: RunFiles, defaults: Mapping[str, Any] | None) -> Html:
    """The document."""
    name = run.folder.resolve().name
    return page(
        f"{name}: run report",
        lines(tag("h1", name), tag("p", summary(run))),
        section("verdict", "Verdict", judged(run)),
        section("scores", "Scores", scored(run)),
        section("curves", "Curves", curves(run)),
        section("again", "Run it again", again(run)),
        section("settings", "Settings", settings(run, defaults)),
        section("environment", "Environment", environment(run)),
    )


def summary(run: RunFiles) -> str:
    """The run in a line."""
    config = run.config
    if not config:
        return "The settings of this run are not known."
    text = f"{config.get('method', '?')} on {config.get('data', '?')}"
    text += f", {config.get('epochs', '?')} epochs"
    return f"{text}, batches of {config.get('batch_size', '?')}"


def judged(run: RunFiles) -> Html:
    """Findings in words, then what could not be read."""
    found = []
    for f in verdict(run):
        command = tag("code", f.command) if f.command else Html()
        said = (tag("strong", f.word), tag("span", f.text), command)
        found.append(tag("li", *said, class_=f.mood))
    expected = run.finished and run.config.get("evaluate") is not False
    problems = [
        tag("p", problem, class_="note problem")
        for problem in run.problems
        if expected or problem != "evaluation.json is missing."
    ]
    return lines(tag("ul", lines(*found), class_="verdict"), *problems)


def scored(run: RunFiles) -> Html:
    """The final table."""
    if run.scores is None:
        why = "there is no whole evaluation.json"
        if run.config.get("evaluate") is False:
            why = "evaluation was switched off"
        elif not run.finished:
            why = "the run is not finished"
        return tag("p", f"No scores: {why}.")
    if not run.scores:
        return tag("p", "No scores: there are no labels in these data.")
    rows: list[list[object]] = []
    for row in run.scores:
        rows.append([row.get("features", "?")])
        for kind in ("knn", "linear"):
            ends = inside(row, kind, "interval")
            ends = [percent(end) for end in ends] if isinstance(ends, list) else ["?"]
            accuracy = percent(inside(row, kind, "accuracy"))
            rows[-1].append(Html(f"{accuracy} {tag('small', ' to '.join(ends))}"))
    interval = tag("small", "95 % interval")
    head = ["features", Html(f"kNN {interval}"), Html(f"linear probe {interval}")]
    first = run.scores[0]
    k, n = inside(first, "knn", "settings", "k"), inside(first, "knn", "n_test")
    n = f"{n:,}" if isinstance(n, int) else "?"
    about = [
        f"kNN: k = {k}, cosine. Linear probe: logistic regression on frozen features. "
        f"{n} test images that were never trained on. The intervals cover the draw of "
        "the test images, not the seed of the training."
    ]
    for row in run.scores:
        for kind in ("knn", "linear"):
            notes = inside(row, kind, "notes")
            about += [str(note) for note in notes] if isinstance(notes, list) else []
    notes = [tag("p", note, class_="note") for note in dict.fromkeys(about)]
    return lines(table(head, rows, label="Scores", kind="numbers"), *notes)


def percent(value: object) -> str:
    """A share, or a question mark."""
    share = number(value)
    return "?" if share is None else f"{100 * share:.1f} %"
