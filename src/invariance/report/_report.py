"""``write_report``: the files of a run folder in, one HTML file out.

Made from the folder alone, so it can be made again at any time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..folder import REPORT, Record, read_record, read_verdict, write_whole
from ..markup import Html, lines, tag
from ._ahead import show_ahead
from ._curves import curves
from ._diagnostics import show_diagnostics
from ._facts import show_facts, summarize
from ._federated import show_clients
from ._html import Missing
from ._map import embedding_map
from ._origin import show_commands, show_environment, show_settings
from ._page import page
from ._pictures import caption_grid, neighbor_grid, sheet, views
from ._score_table import figures, show_scores


def write_report(folder: str | Path, defaults: Mapping[str, Any] | None = None) -> Path:
    """Write ``report.html`` into a run folder and return its path.

    Args:
        folder: Of a run, finished or not; files may be missing or half written.
        defaults: What the settings are when nobody sets them, nested as in
            config.yaml; what differs is then marked.
    """
    run = read_record(folder)
    return write_page(run.folder / REPORT, make_report(run, defaults))


def write_page(path: Path, text: Html) -> Path:
    """The page under its name; names of files may hold what no encoding can write."""
    content = str(text).encode("utf-8", errors="replace")
    write_whole(path, content, advice="The page was not written.")
    return path


def make_report(run: Record, defaults: Mapping[str, Any] | None) -> Html:
    """The document."""
    parts = {
        "verdict": ("Verdict", lines(show_verdict(run), figures(run), show_facts(run))),
        "scores": ("Scores", show_scores(run)),
        "ahead": ("How far ahead", show_ahead(run)),
        "map": ("Map", show_map(run)),
        "neighbors": ("Neighbors", neighbor_grid(run)),
        "captions": ("Captions", caption_grid(run)),
        "clients": ("Clients", show_clients(run)),
        "curves": ("Curves", curves(run)),
        "diagnostics": ("Diagnostics", show_diagnostics(run)),
        "views": ("Views", views(run)),
        "again": ("Run it again", show_commands(run)),
        "settings": ("Settings", show_settings(run, defaults)),
        "environment": ("Environment", show_environment(run)),
    }
    gone = [x for _, x in parts.values() if isinstance(x, Missing) and x]
    kept = {k: p for k, p in parts.items() if not isinstance(p[1], Missing)}
    if gone:
        sentences = lines(*(tag("li", sentence) for sentence in gone))
        kept["missing"] = ("Not in this report", tag("ul", sentences))
    return page(
        f"{run.name}: run report",
        lines(tag("h1", run.name), tag("p", summarize(run))),
        kept,
    )


def show_map(run: Record) -> Html:
    """The map, with the pictures for the whole page."""
    drawn = embedding_map(run)
    return lines(sheet(run.gallery), drawn) if run.gallery is not None else drawn


def show_verdict(run: Record) -> Html:
    """Findings in words, then what could not be read."""
    items = []
    for finding in read_verdict(run):
        command = tag("code", finding.command) if finding.command else Html()
        parts = tag("strong", finding.title), tag("span", finding.text), command
        items.append(tag("li", *parts, class_=finding.mood))
    problems = [tag("p", problem, class_="note problem") for problem in run.problems]
    return lines(tag("ul", lines(*items), class_="verdict"), *problems)
