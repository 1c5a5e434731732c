"""What was found, for notebooks: a row of small pictures per query, or a plain table.

Pictures go into the page itself, so that a notebook can be sent to somebody else.
"""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data import open_image
from ..markup import Html, html_sentences, html_table, tag
from ..words import count
from ._contact_sheet import ACROSS

SIDE = 72  # pixels
QUERIES = 10  # with pictures; more would make a notebook slow to open


def show_hits(neighbors: Sequence[Any], word: str) -> Html:
    """A row per query where hits are image files, else a row per hit.

    Args:
        neighbors: A ``Hits`` for each query.
        word: What a sample is called.
    """
    shown = [
        [find_picture(hit.path) for hit in [*hits][:ACROSS]]
        for hits in neighbors[:QUERIES]
    ]
    if not any(picture for pictures in shown for picture in pictures):
        rows = [
            (hits.query, h.rank, f"{h.score:.3f}", h.path or h.name, h.class_name)
            for hits in neighbors
            for h in hits
        ]
        return html_table(rows, ("query", "rank", "score", word, "class"))
    sheet = html_table(
        [show_query(hits.query), *map(show_hit, hits, pictures)]
        for hits, pictures in zip(neighbors, shown, strict=False)
    )
    left = len(neighbors) - len(shown)
    more = [f"and {count(left, 'more query', 'more queries')}"] if left else []
    return Html(sheet + html_sentences(more))


def show_query(query: str) -> Html:
    """Its picture, if it is a file, and its name."""
    return Html(find_picture(query) + tag("br") + tag("b", Path(query).name or query))


def show_hit(hit: Any, picture: Html) -> Html:
    """Its picture, its score and its name."""
    words = (f"{hit.score:.3f}", hit.class_name, Path(hit.name).name or hit.name)
    below = (tag("small", word) for word in words if word)
    title = tag("span", picture, title=hit.path or hit.name)
    return Html(tag("br").join([title, *below]))


def find_picture(path: str | None) -> Html:
    """The image of a file, small; nothing where there is none any more."""
    if path is None:
        return Html()
    try:
        image = open_image(Path(path), 2 * SIDE).convert("RGB")
    except Exception:  # gone, or no image: the name is shown all the same
        return Html()
    image.thumbnail((2 * SIDE, 2 * SIDE))  # sharp on fine screens, too
    file, kind, how = io.BytesIO(), "jpeg", "auto"
    if max(image.size) <= SIDE:  # its pixels are meant to be seen
        kind, how = "png", "pixelated"
    image.save(file, kind)
    data = base64.b64encode(file.getvalue()).decode()
    look = f"height:{SIDE}px;image-rendering:{how}"
    return tag("img", src=f"data:image/{kind};base64,{data}", alt="", style=look)
