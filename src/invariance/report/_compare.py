"""Several runs on one page: a table, scores, curves overlaid, maps, what differs.

Runs that differ in nothing but their seed are one column more: their mean and standard
deviation.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InvarianceError
from ..folder import (
    MEASURES,
    TRAINED,
    Cell,
    Line,
    Record,
    Scores,
    flatten,
    group_seeds,
    list_measures,
    note_same_seeds,
    read_record,
    read_verdict,
    resolve_settings,
    show_value,
)
from ..markup import Html, lines, tag
from ..words import count, join_most, join_words
from ._charts import color_of
from ._curves import name_runs, overlay_curves
from ._facts import summarize
from ._html import table
from ._maps import show_maps
from ._origin import TOLD
from ._page import page
from ._report import write_page
from ._runs_table import show_runs
from ._score_table import score_table, why_no_scores

LONGEST = 80
MOST_NAMES = 4  # in the title
FEW = 4  # runs, whose verdicts are not folded


def write_comparison(
    folders: Sequence[str | Path],
    path: str | Path = "",
    defaults: Mapping[str, Any] | None = None,
) -> Path:
    """Write one page about several runs and return its path.

    Args:
        folders: Of two runs or more.
        path: Of the page. Default: beside the first run, named after all of them.
        defaults: What the settings are when nobody sets them, nested as in config.yaml:
            they stand in for settings that the version of a run did not have.
    """
    if len({Path(folder).resolve() for folder in folders}) < 2:
        raise InvarianceError(
            f"A comparison needs two different runs or more: got {len(folders)}."
        )
    runs = [read_record(folder) for folder in folders]
    names = name_runs(runs)
    first = Path(folders[0])
    beside = (
        first if first.name and ".." not in first.parts else first.resolve()
    ).parent
    where = Path(path) if path else beside / f"{page_name(names)}.html"
    return write_page(where, comparison(runs, names, defaults))


def page_name(names: Sequence[str]) -> str:
    """What the page of these runs is called: the same runs, the same name.

    >>> page_name(["a", "b"])
    'a-vs-b'
    """
    whole = "-vs-".join(name.replace("/", "-") for name in names)
    if len(whole.encode("utf-8", "surrogateescape")) <= LONGEST:
        return whole
    short = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"comparison-of-{len(names)}-{short}"


def comparison(
    runs: Sequence[Record], names: list[str], defaults: Mapping[str, Any] | None = None
) -> Html:
    """The document."""
    configs, environments = [run.config for run in runs], [run.env for run in runs]
    settings = resolve_settings(configs, environments, defaults)
    shown_settings = [{k: v for k, v in one.items() if k != "name"} for one in settings]
    parts = {
        "verdict": ("Verdict", _verdicts(runs, names)),
        "scores": ("Scores", _scores(runs, names, settings)),
        "curves": ("Curves", overlay_curves(runs, names)),
        "map": ("Map and neighbors", show_maps(runs, names)),
        "differences": (
            "Settings that differ",
            _side_by_side(
                shown_settings,
                names,
                ("setting", "Settings that differ", "All settings are the same."),
            ),
        ),
        "environments": ("Environments that differ", _environments(runs, names)),
    }
    return page(
        f"{join_most(names, MOST_NAMES)}: comparison",
        lines(
            tag("h1", join_most(names, MOST_NAMES)),
            tag("p", f"A comparison of {count(len(runs), 'run')}."),
        ),
        parts,
    )


def _verdicts(runs: Sequence[Record], names: list[str]) -> Html:
    """Who is ahead, a table of the runs, and the first finding of each."""
    items = []
    for k, (run, name) in enumerate(zip(runs, names, strict=True)):
        first = read_verdict(run)[0]
        title = tag("strong", tag("i", class_=f"swatch {color_of(k)}"), name)
        items.append(
            tag(
                "li",
                title,
                tag("span", f"{first.title}. {first.text}"),
                tag("code", first.command) if first.command else Html(),
                tag("small", summarize(run)),
                *(tag("small", problem) for problem in run.problems),
                data_run=k,
            )
        )
    inside = tag("ul", lines(*items), class_="findings")
    title = tag("summary", "The verdict on each run")
    return lines(
        tag("p", ahead(runs, names), class_="lead"),
        show_runs(runs, names),
        tag("details", title, inside, open="" if len(runs) <= FEW else None),
    )


def tables_of(runs: Sequence[Record]) -> list[Scores]:
    """The scores of each run; what is called alike in them is the same data."""
    rows = [row for run in runs for row in run.rows or []]
    return [run.tabulate(beside=rows) for run in runs]


def ahead(runs: Sequence[Record], names: Sequence[str]) -> str:
    """Which run scores highest, and whether the margin is clear."""
    tables = tables_of(runs)
    if len({scores.data for scores in tables if scores.lines}) > 1:
        return "They were scored on different data, so no score says which is better."
    listed = [list_measures(run) for run in runs]
    for protocol, measure in MEASURES.items():
        cells = {
            name: cell
            for name, scores, protocols in zip(names, tables, listed, strict=True)
            if protocol in protocols
            if (cell := scores.cell(TRAINED, protocol)) is not None
        }
        if len(cells) < 2:
            continue
        order = sorted(cells, key=lambda name: -cells[name].mean)
        best, second = cells[order[0]], cells[order[1]]
        lead = measure.show_change(best.mean - second.mean)
        name = measure.name.format(word=runs[0].word)
        if best.mean == second.mean:
            return f"{name} puts {order[0]} and {order[1]} level."
        text = f"{name} puts {order[0]} ahead of {order[1]} by {lead}"
        clear = best.ends[0] > second.ends[1]
        return text + (
            ", more than the margin of the test."
            if clear
            else ", which is within the margin of the test."
        )
    return "Fewer than two of them have scores to compare."


def _scores(
    runs: Sequence[Record], names: list[str], settings: Sequence[Mapping[str, Any]]
) -> Html:
    """The trained encoder of each run, beside the mean of those that are alike."""
    tables = tables_of(runs)
    columns = {name: [k] for k, name in enumerate(names)}
    means = [same for same in group_seeds(settings) if len(same) > 1]
    columns |= {f"mean {k}": same for k, same in enumerate(means)}
    merged: dict[tuple[Any, ...], Line] = {}
    for scores in tables:
        for line in scores.lines:
            merged.setdefault(line.key, dataclasses.replace(line, cells={}))
    for key, line in merged.items():
        for column, members in columns.items():
            cells = [
                one.cells[TRAINED]
                for m in members
                for one in tables[m].lines
                if one.key == key
                if TRAINED in one.cells
            ]
            if len(members) > 1 and len(cells) > 1:  # of one value there is no mean
                each = tuple(cell.mean for cell in cells)
                line.cells[column] = Cell(each, None, "run")
            elif len(members) == 1 and cells:
                line.cells[column] = cells[0]
    kept = [line for line in merged.values() if line.cells]
    silent = [
        tag("p", f"{name}: no scores, {why_no_scores(run)}.", class_="note")
        for run, name in zip(runs, names, strict=True)
        if not run.rows
    ]
    if not kept:
        return lines(tag("p", "There are no scores to compare."), *silent)
    heads: dict[str, object] = {}
    notes: list[str] = []
    for column, members in columns.items():
        if len(members) == 1:
            swatch = tag("i", class_=f"swatch {color_of(members[0])}")
            heads[column] = tag("span", swatch, column)
        elif any(column in line.cells for line in kept):
            below = join_words([names[m] for m in members])
            title = tag("span", "mean over seeds")
            heads[column] = Html(f"{title}{tag('small', below)}")
            alike = [settings[m] for m in members]
            notes += note_same_seeds([names[m] for m in members], alike)
    data = next(scores.data for scores in tables if scores.lines)
    whole = Scores(list(heads), kept, data, None, [])
    about = (
        "Each run's trained encoder. Below a value is its 95 % interval; ± is the "
        "standard deviation over seeds or draws."
    )
    note = tag("p", " ".join([about, *notes]), class_="note")
    of = [columns[c][0] if len(columns[c]) == 1 else None for c in heads]
    return lines(score_table(whole, heads, of), note, *silent)


def _environments(runs: Sequence[Record], names: list[str]) -> Html:
    known = [
        flatten({k: v for k, v in run.env.items() if k not in TOLD}) for run in runs
    ]
    return _side_by_side(
        [{k.removeprefix("packages."): v for k, v in one.items()} for one in known],
        names,
        ("what", "Environments that differ", "They ran in the same environment."),
    )


def _side_by_side(
    values: Sequence[Mapping[str, Any]], names: list[str], words: tuple[str, str, str]
) -> Html:
    """Rows in which not all columns say the same."""
    first, label, same = words
    keys = list(dict.fromkeys(key for one in values for key in one))
    rows: list[list[object]] = []
    for key in keys:
        cells = [show_value(one[key]) if key in one else "?" for one in values]
        if len(set(cells)) > 1:
            rows.append([key, *cells])
    if not rows:
        return tag("p", same)
    return table([first, *names], rows, label=label, runs=range(len(names)))
