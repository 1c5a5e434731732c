"""A page that follows a folder of runs: what it is, and what it shows now.

The page asks every two seconds for ``show_now`` and puts what has changed in its place.
All markup is made here, where everything that comes out of files is escaped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ..errors import InvarianceError
from ..folder import (
    CONFIG,
    ENCODER,
    ENVIRONMENT,
    LOG,
    METRICS,
    REPORT,
    Record,
    find_state,
    read_record,
    read_tail,
)
from ..markup import Html, lines, tag
from ..words import count, show_duration
from ._curves import draw_curves, overlay_curves
from ._facts import name_task, summarize
from ._html import scroll
from ._numbers import show_number
from ._page import document, part
from ._report import show_verdict

MOST_SHOWN = 8  # runs at once: so many colors are told apart
LOG_LINES = 60
WATCHED = (CONFIG, ENVIRONMENT, METRICS, ENCODER, REPORT)


@dataclass(frozen=True)
class Seen:
    """A run as it is now."""

    name: str
    """Its folder, below the one that is watched."""
    record: Record
    changed: float
    """When a file of it was last written."""
    state: str
    """A word: running, scoring, finished or stopped."""

    @property
    def at_work(self) -> bool:
        """Whether it goes on by itself."""
        return self.state in ("running", "scoring")

    @property
    def seconds_left(self) -> float | None:
        """Of the training, at the speed it had so far; the scores come after."""
        run = self.record
        epoch, epochs, seconds = run.last("epoch"), run.epochs, run.seconds
        if self.state != "running" or not (epoch and epochs and seconds):
            return None
        return seconds * (epochs - epoch) / epoch


class Gaze:
    """The runs below a folder; a file that has not changed is not read again."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.known: dict[Path, tuple[tuple[object, ...], Record]] = {}

    @property
    def title(self) -> str:
        """What the folder is called."""
        return self.folder.resolve().name

    def look(self) -> list[Seen]:
        """All runs as they are now, those at work first, then the newest."""
        return sorted(self._see(), key=lambda run: (not run.at_work, -run.changed))

    def find_report(self, name: str) -> Path | None:
        """The report of a run of that very name, if there is one."""
        folder = dict(self._folders()).get(name)
        path = None if folder is None else folder / REPORT
        return path if path is not None and path.is_file() else None

    def _folders(self) -> Iterator[tuple[str, Path]]:
        """Run folders with their names: the folder itself, below it, and in sweeps."""
        if (self.folder / CONFIG).is_file():
            yield self.title, self.folder
        for pattern in (f"*/{CONFIG}", f"*/*/{CONFIG}"):
            for path in sorted(self.folder.glob(pattern)):
                yield path.parent.relative_to(self.folder).as_posix(), path.parent

    def _see(self) -> Iterator[Seen]:
        for name, folder in self._folders():
            stats = [_stat(folder / file) for file in WATCHED]
            mark = tuple(stats)
            if self.known.get(folder, ((), None))[0] != mark:
                try:
                    self.known[folder] = mark, read_record(folder)
                except (InvarianceError, OSError):  # of another version, or just gone
                    continue
            times = [stat[0] for stat in stats if stat is not None]
            record = self.known[folder][1]
            yield Seen(name, record, max(times, default=0.0), find_state(record))


def _stat(path: Path) -> tuple[float, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime, stat.st_size


def make_live_page(title: str) -> Html:
    """The page before anything is known; its script fills it."""
    theme = tag("button", "Dark", type="button", id="theme", class_="needs-script")
    name = tag("span", "invariance watch", class_="note")
    return document(
        f"{title}: runs",
        lines(
            tag("div", name, theme, class_="topbar"),
            tag("header", tag("h1", title), tag("p", "Looking ...", id="summary")),
            tag("p", id="trouble", role="alert", hidden=""),
            tag("main", tag("div", id="runs"), tag("div", id="shown")),
        ),
        style=part("page.css") + part("live.css"),
        script=part("common.js") + part("live.js"),
        asks=True,
    )


def show_now(gaze: Gaze, chosen: Sequence[str]) -> dict[str, object]:
    """What the page shows of a folder: markup by the id of its place.

    Args:
        gaze: At the folder.
        chosen: Names of runs to draw; the newest where none of them is there.
    """
    runs = gaze.look()
    names = [run.name for run in runs if run.name in chosen] or [
        run.name for run in runs[:1]
    ]
    drawn = [run for run in runs if run.name in names][:MOST_SHOWN]
    at_work = sum(run.at_work for run in runs)
    words = count(len(runs), "run")
    summary = f"{words}, {at_work} running" if runs else "No runs here yet."
    return {
        "summary": Html(summary),
        "runs": show_table(runs, names),
        "shown": lines(*show_chosen(drawn)),
        "title": f"({at_work}) {gaze.title}" if at_work else gaze.title,
    }


def show_table(runs: Sequence[Seen], chosen: Sequence[str]) -> Html:
    """A row per run: what it is, how far it is, and how it goes."""
    if not runs:
        return tag("p", "A run is shown here as soon as its training begins.")
    head = ("run", "state", "epoch", "loss", "kNN")
    rows = [tag("tr", *_cells(run, run.name in chosen)) for run in runs]
    titles = tag("tr", *(tag("th", title, scope="col") for title in head))
    whole = tag(
        "table", tag("thead", titles), tag("tbody", lines(*rows)), class_="live"
    )
    return scroll(whole, "Runs")


def _cells(run: Seen, chosen: bool) -> list[Html]:
    record = run.record
    box = tag(
        "input", type="checkbox", data_run=run.name, checked="" if chosen else None
    )
    name = tag("label", box, tag("span", run.name, tag("small", name_task(record))))
    left = run.seconds_left
    about = f"{show_duration(left)} left" if left else ""
    if run.state == "finished" and (record.folder / REPORT).is_file():
        about = tag("a", "report", href=f"report?run={quote(run.name, safe='')}")
    epoch, epochs = record.last("epoch"), record.epochs
    far = "" if epoch is None else f"{epoch:.1f}".removesuffix(".0")
    of = tag("small", f"of {epochs:g}") if epochs else Html()
    done = tag("progress", value=epoch or 0, max=epochs or 1, aria_label="epochs done")
    loss, knn = (record.mean_of_last_epoch(key) for key in ("loss", "knn"))
    return [
        tag("th", name, scope="row"),
        tag("td", tag("b", run.state, class_=run.state), tag("small", about)),
        tag("td", far, " ", of, done),
        tag("td", "" if loss is None else show_number(loss)),
        tag("td", "" if knn is None else show_number(knn, percent=True)),
    ]


def show_chosen(runs: Sequence[Seen]) -> Iterator[Html]:
    """The curves of the runs chosen; of one alone, also its verdict and its log."""
    if len(runs) == 1:
        record, name = runs[0].record, runs[0].name
        yield tag("h2", name)
        yield tag("p", summarize(record), class_="note")
        if not runs[0].at_work:
            yield show_verdict(record)
        yield draw_curves(record)
        if log := read_tail(record.folder / LOG, LOG_LINES):
            yield tag("h3", "The end of its log")
            yield tag("pre", log, id="log", tabindex=0)
    elif runs:
        names = [run.name for run in runs]
        yield tag("h2", f"{len(runs)} runs")
        yield overlay_curves([run.record for run in runs], names, hideable=False)
