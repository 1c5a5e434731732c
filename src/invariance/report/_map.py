"""The map of the embeddings: a point per picture, its class in color and in words.

Drawn here, so that it is there without a script and on paper; ``page.js`` adds pictures
on hover, neighbors on click, keys, zoom.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..folder import Gallery, Record
from ..markup import Html, lines, tag
from ..words import count
from ._html import Missing, data
from ._pictures import name_sheet, why_no_pictures

WIDTH, HEIGHT, MARGIN = 1000, 760, 40
TOP = 80  # where the buttons are
COLORS = 12
MOST_NAMES = 24  # classes whose names are written on the map
REACH = 50  # how far a point looks for others of its class

HELP = (
    "Point at a dot to see what it is, click for its nearest neighbors. Drag to move, "
    "+ and − to zoom. By keyboard: arrow keys go from dot to dot, Enter to the "
    "neighbors, 0 shows all, Escape lets go."
)


def embedding_map(run: Record) -> Html:
    """The section; without a gallery, a sentence."""
    gallery = run.gallery
    if gallery is None:
        return Missing(f"No map and no neighbors: {why_no_pictures(run)}.")
    places = fit_places(gallery.places)
    numbers = gallery.clusters if gallery.labels is None else gallery.labels
    points = [
        tag("circle", class_=f"c{k % COLORS}", cx=x, cy=y, r=5)
        for (x, y), k in zip(places, numbers, strict=True)
    ]
    kinds = [("cluster", gallery.clusters, cluster_names(gallery))]
    if gallery.labels is not None:
        kinds.insert(0, ("label", gallery.labels, gallery.label_names))
    of = f" of {gallery.of:,}" if gallery.of > len(gallery) else ""
    about = (
        f"{count(len(gallery), run.word)}{of} of the {gallery.source or '?'} part, "
        "placed by t-SNE of their features: near means alike, but distances between "
        "groups mean little."
    )
    plane = tag(
        "svg",
        tag("g", id="links"),
        tag("g", *points, id="points"),
        tag("g", id="shown"),
        tag("g", id="marks"),
        *(_write_legend(n, places, *kind) for n, kind in enumerate(kinds)),
        id="plane",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        tabindex=0,
        role="application",
        aria_label=f"Map of {count(len(gallery), run.word)}",
        aria_describedby="map-help",
        data_points=len(gallery),
    )
    tip = tag("div", id="tip", hidden="", aria_hidden="true")
    tools = _tools([kind for kind, _, _ in kinds], pictures=gallery.sheet is not None)
    stage = tag("div", plane, tip, tools, class_="stage")
    side = tag(
        "aside",
        *(_legend(n, *kind) for n, kind in enumerate(kinds)),
        tag("div", id="chosen", class_="needs-script"),
        tag("p", id="spoken", class_="unseen", role="status"),
        aria_label=f"Legend and chosen {run.word}",
    )
    return lines(
        tag("p", about, class_="note"),
        tag("div", stage, side, class_="map"),
        tag("p", HELP, id="map-help", class_="note needs-script"),
        data("gallery", for_script(gallery, places)),
    )


def for_script(
    gallery: Gallery, places: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """What ``page.js`` needs to know."""
    return {
        "size": gallery.size,
        "columns": gallery.columns,
        "sheet": name_sheet(gallery),
        "names": gallery.names,
        "label": gallery.labels,
        "labels": None if gallery.labels is None else gallery.label_names,
        "cluster": gallery.clusters,
        "places": places,
        "neighbors": gallery.neighbors,
        "scores": [[round(score, 2) for score in row] for row in gallery.scores],
        "colors": COLORS,
    }


def fit_places(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places in the drawing, both directions to one scale.

    >>> fit_places([(0.0, 0.0), (2.0, 1.0)])
    [(40.0, 630.0), (960.0, 170.0)]
    """
    xs, ys = [x for x, _ in places], [y for _, y in places]
    wide, tall = max(xs) - min(xs), max(ys) - min(ys)
    room = ((WIDTH - 2 * MARGIN, wide), (HEIGHT - MARGIN - TOP, tall))
    scale = min((most / length for most, length in room if length > 0), default=0.0)
    x0, y0 = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    x1, y1 = WIDTH / 2, (TOP + HEIGHT - MARGIN) / 2
    return [
        (round(x1 + scale * (x - x0), 1), round(y1 - scale * (y - y0), 1))
        for x, y in places
    ]


def cluster_names(gallery: Gallery) -> dict[int, str]:
    """A number a cluster, with the label that most of it has."""
    names = {}
    for k in sorted(set(gallery.clusters)):
        names[k] = f"cluster {k + 1}"
        if gallery.labels is not None:
            labels = [
                label
                for label, c in zip(gallery.labels, gallery.clusters, strict=True)
                if c == k
            ]
            label, count = Counter(labels).most_common(1)[0]
            share = f"{100 * count / len(labels):.0f} %"
            names[k] += f": {share} {gallery.class_name(label)}"
    return names


def _write_legend(
    n: int,
    places: Sequence[tuple[float, float]],
    kind: str,
    numbers: Sequence[int],
    names: dict[int, str],
) -> Html:
    """The name of each class where it is densest; not over one written before."""
    taken: list[tuple[float, float]] = []
    words = []
    for k in names if len(names) <= MOST_NAMES else ():
        members = [place for place, c in zip(places, numbers, strict=True) if c == k]
        near = {
            (x, y): sum(abs(x - a) + abs(y - b) < REACH for a, b in members)
            for x, y in dict.fromkeys(members[:: max(1, len(members) // 200)])
        }
        for x, y in sorted(near, key=lambda place: -near[place]):
            if all(abs(x - a) > 120 or abs(y - b) > 28 for a, b in taken):
                taken.append((x, y))
                x = min(max(x, 60), WIDTH - 60)
                name = names[k].split(":")[0]
                short = name if len(name) <= 24 else f"{name[:23]}…"
                words.append(tag("text", short, x=x, y=y + 5, text_anchor="middle"))
                break
    return tag(
        "g",
        *words,
        class_="names" if not n else "names off",
        data_kind=kind,
        aria_hidden="true",
    )


def _tools(kinds: list[str], *, pictures: bool) -> Html:
    """What the map is colored by, whether pictures are on it, and the zoom."""
    choices = [
        _choice("radio", kind, kind, checked=None if n else "", name="color")
        for n, kind in enumerate(kinds)
    ]
    parts = [tag("fieldset", tag("legend", "Color by"), *choices, class_="choice")]
    if pictures:
        choice = _choice("checkbox", "pictures", "pictures")
        parts.append(tag("div", choice, class_="choice"))
    zoom = [
        tag("button", sign, type="button", data_zoom=value, aria_label=name)
        for sign, value, name in (
            ("+", "in", "Zoom in"),
            ("−", "out", "Zoom out"),
            ("All", "all", "Show all"),
        )
    ]
    parts.append(tag("div", *zoom, class_="zoom"))
    return tag("div", *parts, class_="tools needs-script")


def _choice(kind: str, value: str, words: str, **more: object) -> Html:
    box = tag("input", type=kind, value=value, id=f"by-{value}", **more)
    return tag("label", box, tag("span", words), for_=f"by-{value}")


def _legend(n: int, kind: str, numbers: Sequence[int], names: dict[int, str]) -> Html:
    counts = Counter(numbers)
    entries = [
        tag(
            "li",
            tag(
                "button",
                tag("i", class_=f"c{k % COLORS}"),
                tag("span", name),
                tag("small", f"{counts[k]:,}"),
                type="button",
                aria_pressed="false",
                data_k=k,
            ),
        )
        for k, name in names.items()
    ]
    kinds = "legend" if not n else "legend off"
    return tag("ul", *entries, class_=kinds, data_kind=kind)
