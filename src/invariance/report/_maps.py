"""Maps and neighbors of several runs: one is shown, the others wait in templates.

Pictures that runs share are in the page once. What would make the page larger than
``MOST`` is left out, and said: each run's own report has it.
"""

from collections.abc import Sequence

from ..folder import Record
from ..markup import Html, lines, tag
from ..words import join_most
from ._map import embedding_map
from ._pictures import name_sheet, neighbor_grid, sheet, why_no_pictures

MOST = 16_000_000  # letters: a dozen maps of 2,000 pictures that are the same
MOST_NAMES = 12


def show_maps(runs: Sequence[Record], names: Sequence[str]) -> Html:
    """The map and the neighbors of a run, and a choice among those that have them."""
    sheets: dict[str, Html] = {}
    shown: dict[int, Html] = {}
    size, large = 0, []
    for k, run in enumerate(runs):
        if run.gallery is None:
            continue
        part, pictures = show_one(run), sheet(run.gallery)
        known = name_sheet(run.gallery) in sheets
        grown = size + len(part) + (0 if known else len(pictures))
        if shown and grown > MOST:
            large.append(names[k])
            continue
        size, shown[k] = grown, part
        sheets[name_sheet(run.gallery)] = pictures
    notes = [
        f"{name}: no map, {why_no_pictures(run)}."
        for run, name in zip(runs, names, strict=True)
        if run.gallery is None
    ]
    if large:
        notes.append(
            "Only in their own reports, since this page would become too large: the "
            f"maps of {join_most(large, MOST_NAMES)}."
        )
    paragraphs = [tag("p", note, class_="note") for note in notes]
    if not shown:
        return lines(*paragraphs)
    first, *others = shown
    options = [tag("option", names[k], value=k) for k in shown]
    choice = tag("select", *options, id="which", autocomplete="off")
    return lines(
        *filter(None, sheets.values()),
        tag("p", tag("label", "Run ", choice), class_="which needs-script"),
        tag("p", f"Of {names[first]}:", class_="note without-script"),
        tag("div", shown[first], id="of-run"),
        *(tag("template", shown[k], data_of=k) for k in others),
        *paragraphs,
    )


def show_one(run: Record) -> Html:
    """Map and neighbors of one run."""
    neighbors = neighbor_grid(run)
    return lines(embedding_map(run), tag("h3", "Neighbors"), neighbors)
