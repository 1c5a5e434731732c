"""Thumbnails out of one sheet: queries and captions with their neighbors, and views.

The sheet is in the page once; a thumbnail is a window on it, so that the page needs no
script to show them and prints as it looks.
"""

import hashlib

from ..folder import Gallery, Record
from ..markup import Html, lines, tag
from ._html import Missing, scroll

EVEN, WORST, SHOWN = 8, 4, 10


def name_sheet(gallery: Gallery) -> str:
    """The id of its sheet: the same pictures, the same id, whoever learned from them.

    Empty where there are no pictures.
    """
    if gallery.sheet is None:
        return ""
    return f"sheet-{hashlib.sha256(gallery.sheet.encode()).hexdigest()[:12]}"


def sheet(gallery: Gallery) -> Html:
    """The sheet itself, out of sight."""
    if gallery.sheet is None:
        return Html()
    rows = -(-len(gallery) // gallery.columns)
    width, height = gallery.columns * gallery.size, rows * gallery.size
    image = tag(
        "image", id=name_sheet(gallery), href=gallery.sheet, width=width, height=height
    )
    return tag("svg", tag("defs", image), class_="unseen", aria_hidden="true")


def thumbnail(gallery: Gallery, i: int, alt: str) -> Html:
    """A window on the sheet; a text is written out."""
    if gallery.written:
        return tag("span", gallery.names[i], class_="thumb text")
    if gallery.sheet is None:
        return tag("span", class_="thumb", role="img", aria_label=alt)
    edge = gallery.size / 64  # a hair less, or its neighbors would shine through
    left, top = (place + edge for place in gallery.spot(i))
    side = gallery.size - 2 * edge
    return tag(
        "svg",
        tag("use", href=f"#{name_sheet(gallery)}"),
        class_="thumb",
        viewBox=f"{left:g} {top:g} {side:g} {side:g}",
        role="img",
        aria_label=alt,
    )


def queries(gallery: Gallery) -> list[int]:
    """Pictures drawn evenly, by class where there are labels; nobody picked them."""
    order = list(range(len(gallery)))
    if gallery.labels is not None:
        labels = gallery.labels
        order.sort(key=lambda i: labels[i])
    step = max(1.0, len(order) / EVEN)
    # the middle of each stretch, so that eight classes give one picture each
    return [order[int(step * (k + 0.5))] for k in range(min(EVEN, len(order)))]


def neighbor_grid(run: Record) -> Html:
    """Rows of a query and what is nearest to it."""
    gallery = run.gallery
    if gallery is None:
        return Missing()  # the map has said so
    if not gallery.neighbors[0]:
        return Missing("No neighbors: there is only one picture.")
    even, word = queries(gallery), run.word if run.word != "image" else "picture"
    parts = [tag("p", _about(gallery, word), class_="note"), _grid(gallery, even)]
    if gallery.labels is not None:
        shares = {i: gallery.agreement(i) or 0.0 for i in range(len(gallery))}
        worst = sorted(shares, key=lambda i: shares[i])[:WORST]
        worst = [i for i in worst if shares[i] < 0.5]
        if worst:
            parts.append(tag("h3", "Where its neighbors disagree most"))
            parts.append(_grid(gallery, worst))
    return lines(*parts)


def _about(gallery: Gallery, word: str) -> str:
    text = (
        f"Left, {word}s drawn evenly from the {gallery.source or 'gallery'} part; "
        f"then the {min(SHOWN, len(gallery.neighbors[0]))} nearest to each by cosine "
        "of their features."
    )
    known = [gallery.agreement(i) for i in range(len(gallery))]
    shares = [share for share in known if share is not None]
    if shares:
        mean = 100 * sum(shares) / len(shares)
        text += (
            " ✓ has the label of its query, ✗ has another. Over all "
            f"{len(gallery):,} {word}s, {mean:.1f} % of the "
            f"{len(gallery.neighbors[0])} nearest have the same label."
        )
    return text


def _grid(gallery: Gallery, asked: list[int]) -> Html:
    rows = []
    for i in asked:
        label, name = gallery.label(i), gallery.names[i]
        alt = f"Query {name}" + (f", {label}" if label else "")
        below = "" if gallery.written else name.rsplit("/")[-1]
        first = tag(
            "div",
            thumbnail(gallery, i, alt),
            tag("span", label or below, class_="label"),
            class_="query",
        )
        pairs = zip(gallery.neighbors[i], gallery.scores[i], strict=True)
        cells = [_neighbor(gallery, i, j, s) for j, s in list(pairs)[:SHOWN]]
        rows.append(tag("li", first, tag("ol", *cells)))
    return tag("ul", lines(*rows), class_="grid-of-neighbors")


def _neighbor(gallery: Gallery, i: int, j: int, score: float) -> Html:
    label = gallery.label(j)
    right = None if gallery.labels is None else gallery.labels[i] == gallery.labels[j]
    agrees = "" if right is None else ", same label" if right else ", another label"
    alt = f"{gallery.names[j]}{f', {label}' if label else ''}{agrees}, {score:.2f}"
    return _hit(gallery, j, label or f"{score:.2f}", alt, right)


def _hit(gallery: Gallery, j: int, words: str, alt: str, right: bool | None) -> Html:
    """A picture that was found, and whether it is one that was looked for."""
    mark, kind = {None: ("", None), True: ("✓ ", "right"), False: ("✗ ", "wrong")}[
        right
    ]
    below = tag("span", mark, tag("b", words), class_="label")
    title = tag("span", below, aria_hidden="true")
    return tag("li", thumbnail(gallery, j, alt), title, class_=kind)


def why_no_pictures(run: Record) -> str:
    """What stands where pictures would."""
    if run.config.get("evaluate") is False:
        return "evaluation was switched off"
    if not run.finished:
        return "the run is not finished"
    return "gallery/ is missing or broken"


def views(run: Record) -> Html:
    """Pictures and what the encoder was shown of them."""
    if run.gallery is None or run.gallery.views is None:
        return Missing(f"No views: {why_no_pictures(run)}.")
    alt = (
        f"Training {run.word}s in the top row; in each row below, one view of every "
        f"{run.word}."
    )
    return lines(
        tag(
            "p",
            explain_views(run),
            class_="note",
        ),
        tag(
            "p", "There is more to the right: scroll sideways.", class_="note if-narrow"
        ),
        scroll(tag("img", src=run.gallery.views, alt=alt, class_="views"), "Views"),
    )


def explain_views(run: Record) -> str:
    """How to read them."""
    text = f"Top row: {run.word}s as they are. Below each: the views of it in the first"
    if run.positives == "pairs":
        return (
            f"{text} epoch, then the other side of its pair in the same way. Training "
            "pulls the two sides together."
        )
    if run.positives == "future":
        return f"{text} epoch. Training predicts the later parts from the earlier ones."
    if run.positives == "tokens":
        return f"{text} epoch. Training asks for the tokens that are hidden in them."
    if run.positives == "places":
        return (
            f"{text} epoch. Training makes the encoder's map of an {run.word} find the "
            f"summary of the same {run.word}."
        )
    before = ", before the attack" if run.config.get("views_adversarial") else ""
    return (
        f"{text} epoch{before}. Training pulls the views of one {run.word} together, "
        "so whatever they change is what the features learn to ignore."
    )


def caption_grid(run: Record) -> Html:
    """Rows of a caption and what is nearest to it."""
    gallery = run.gallery
    if gallery is None or not gallery.captions:
        return Missing()  # the map has said so, or there are no captions
    about = (
        f"Left, captions drawn evenly from the {gallery.source or 'gallery'} part; "
        "then the pictures nearest to each, by the cosine in the space where both "
        "sides meet. ✓ shows what the caption is about, ✗ something else."
    )
    rows = [_caption_row(gallery, k) for k in range(len(gallery.captions))]
    grid = tag("ul", lines(*rows), class_="grid-of-neighbors captions")
    return lines(tag("p", about, class_="note"), grid)


def _caption_row(gallery: Gallery, k: int) -> Html:
    caption = gallery.captions[k]
    cells = []
    for i, score, right in zip(
        caption.pictures, caption.scores, caption.right, strict=True
    ):
        fits = "as described" if right else "something else"
        alt = f"{gallery.names[i]}, {fits}, {score:.2f}"
        cells.append(_hit(gallery, i, f"{score:.2f}", alt, right))
    return tag("li", tag("div", caption.text, class_="query"), tag("ol", *cells))
