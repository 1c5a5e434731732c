"""A contact sheet: each query with the pictures found for it, as one PNG.

query   |  1  2  3  4  5      one block a query; name and score under each
        |  6  7  8  9 10
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from ._images import on_one_line

TILE, GAP, LINE, MARGIN = 128, 12, 16, 20
ACROSS = 10
INK, FAINT, PAPER, BLANK = "#1b1f24", "#68707a", "#ffffff", "#e3e6ea"
FRAME = "#1f6feb"

Picture = Callable[[str], Image.Image | None]


def contact_sheet(
    found: Sequence[Any], query_pictures: Sequence[Image.Image], picture: Picture
) -> Image.Image:
    """One block a query; a picture that cannot be had is a grey tile.

    Args:
        found: a ``Hits`` for each query.
        query_pictures: the queries themselves.
        picture: gives the picture of a name of the gallery, or None.
    """
    n_hits = max(len(f.hits) for f in found)
    across = min(max(n_hits, 1), ACROSS)
    down = [max(1, -(-len(f.hits) // across)) for f in found]
    high = TILE + 2 * LINE + GAP
    width = 2 * MARGIN + (across + 1) * (TILE + GAP) + GAP
    height = 2 * MARGIN + sum(down) * high + (len(found) - 1) * GAP
    sheet = Image.new("RGB", (width, height), PAPER)
    draw, small = ImageDraw.Draw(sheet), font(12)
    y = MARGIN
    for f, query, lines in zip(found, query_pictures, down, strict=True):
        sheet.paste(fitted(query), (MARGIN, y))
        frame = (MARGIN - 3, y - 3, MARGIN + TILE + 2, y + TILE + 2)
        draw.rectangle(frame, outline=FRAME, width=3)
        caption(draw, small, (MARGIN, y), Path(f.query).name, "query")
        for k, hit in enumerate(f.hits):
            x = MARGIN + (k % across + 1) * (TILE + GAP) + GAP
            top = y + k // across * high
            shown = picture(hit.name)
            tile = Image.new("RGB", (TILE, TILE), BLANK)
            sheet.paste(fitted(shown) if shown is not None else tile, (x, top))
            told = f"{hit.score:.3f}" + (f"  {hit.class_name}" * bool(hit.class_name))
            caption(draw, small, (x, top), Path(hit.name).name or hit.name, told)
        y += lines * high + GAP
    return sheet


def fitted(image: Image.Image) -> Image.Image:
    """The whole picture within a tile, small ones with their pixels kept square."""
    image = image.convert("RGB")
    scale = TILE / max(image.size)
    how = Image.Resampling.NEAREST if scale >= 2 else Image.Resampling.LANCZOS
    size = tuple(max(1, round(side * scale)) for side in image.size)
    tile = Image.new("RGB", (TILE, TILE), BLANK)
    image = image.resize((size[0], size[1]), how)
    tile.paste(image, ((TILE - size[0]) // 2, (TILE - size[1]) // 2))
    return tile


def caption(
    draw: ImageDraw.ImageDraw,
    small: ImageFont.FreeTypeFont,
    corner: tuple[int, int],
    name: str,
    told: str,
) -> None:
    """Two lines under a tile."""
    x, y = corner
    for line, (text, colour) in enumerate(((told, INK), (name, FAINT))):
        place = (x, y + TILE + 2 + line * LINE)
        draw.text(place, cut(on_one_line(text), small), fill=colour, font=small)


def cut(text: str, small: ImageFont.FreeTypeFont) -> str:
    """As much of a text as fits under a tile: the beginning and the end."""
    if small.getlength(text) <= TILE:
        return text
    keep = len(text)
    while keep > 2:
        keep -= 1
        head = keep // 2
        short = text[:head] + "…" + text[len(text) - (keep - head) :]
        if small.getlength(short) <= TILE:
            return short
    return "…"


def font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along and which knows most alphabets."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(path), size)
