"""``write_report``: the files of a run folder in, one HTML file out.

Made from the folder alone, so it can be made again at any time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._curves import curves
from ._diagnosed import diagnosed
from ._files import RunFiles, read_run
from ._html import Html, Missing, lines, tag
from ._map import embedding_map
from ._page import page, section
from ._pictures import neighbour_grid, views
from ._settings import again, environment, settings
from ._summary import figures, scored, summary
from ._verdict import verdict
from ._write import write_page

NAME = "report.html"


def write_report(folder: str | Path, defaults: Mapping[str, Any] | None = None) -> Path:
    """Write ``report.html`` into a run folder and return its path.

    Args:
        folder: Of a run, finished or not; files may be missing or half written.
        defaults: What the settings are when nobody sets them, nested as in
            config.yaml; what differs is then marked.
    """
    run = read_run(Path(folder))
    return write_page(run.folder / NAME, report(run, defaults))


def report(run: RunFiles, defaults: Mapping[str, Any] | None) -> Html:
    """The document."""
    parts = {
        "verdict": ("Verdict", lines(judged(run), figures(run))),
        "scores": ("Scores", scored(run)),
        "map": ("Map", embedding_map(run)),
        "neighbours": ("Neighbours", neighbour_grid(run)),
        "curves": ("Curves", curves(run)),
        "diagnostics": ("Diagnostics", diagnosed(run)),
        "views": ("Views", views(run)),
        "again": ("Run it again", again(run)),
        "settings": ("Settings", settings(run, defaults)),
        "environment": ("Environment", environment(run)),
    }
    gone = [inside for _, inside in parts.values() if isinstance(inside, Missing)]
    kept = {k: p for k, p in parts.items() if not isinstance(p[1], Missing)}
    if gone:
        sentences = lines(*(tag("li", sentence) for sentence in filter(None, gone)))
        kept["missing"] = ("Not in this report", tag("ul", sentences))
    return page(
        f"{run.name}: run report",
        lines(tag("h1", run.name), tag("p", summary(run))),
        *(section(key, title, inside) for key, (title, inside) in kept.items()),
        contents={key: title for key, (title, _) in kept.items()},
    )


def judged(run: RunFiles) -> Html:
    """Findings in words, then what could not be read."""
    found = []
    for f in verdict(run):
        command = tag("code", f.command) if f.command else Html()
        said = (tag("strong", f.word), tag("span", f.text), command)
        found.append(tag("li", *said, class_=f.mood))
    problems = [tag("p", problem, class_="note problem") for problem in run.problems]
    return lines(tag("ul", lines(*found), class_="verdict"), *problems)
