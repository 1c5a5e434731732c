"""Captions with the pictures that lie nearest to them, of runs on pairs."""

from ..folder import Gallery, Record
from ._html import Html, Missing, lines, tag
from ._pictures import thumbnail


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
    rows = [_row(gallery, k) for k in range(len(gallery.captions))]
    grid = tag("ul", lines(*rows), class_="grid-of-neighbors captions")
    return lines(tag("p", about, class_="note"), grid)


def _row(gallery: Gallery, k: int) -> Html:
    caption = gallery.captions[k]
    cells = []
    for i, score, right in zip(
        caption.pictures, caption.scores, caption.right, strict=True
    ):
        mark, kind = ("✓ ", "right") if right else ("✗ ", "wrong")
        fits = "as described" if right else "something else"
        alt = f"{gallery.names[i]}, {fits}, {score:.2f}"
        below = tag("span", mark, tag("b", f"{score:.2f}"), class_="label")
        title = tag("span", below, aria_hidden="true")
        cells.append(tag("li", thumbnail(gallery, i, alt), title, class_=kind))
    return tag("li", tag("div", caption.text, class_="query"), tag("ol", *cells))
