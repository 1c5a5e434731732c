"""A contact sheet: each query with the images found for it, as one PNG.

query   |  1  2  3  4  5      one block per query; score, class and name under each
        |  6  7  8  9 10
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from ._inputs import on_one_line

TILE, GAP, LINE, MARGIN = 128, 12, 16, 20
ACROSS = 10
INK, FAINT, PAPER, BLANK = "#1b1f24", "#68707a", "#ffffff", "#e3e6ea"
FRAME = "#1f6feb"


def draw_contact_sheet(
    neighbors: Sequence[Any],
    queries: Sequence[Image.Image],
    images: Mapping[str, Image.Image | None],
) -> Image.Image:
    """One block per query; an image that cannot be had is a gray tile.

    Args:
        neighbors: a ``Hits`` for each query.
        queries: the images of the queries.
        images: the images of the gallery, by name.
    """
    across = min(max(1, *(len(hits) for hits in neighbors)), ACROSS)
    lines = [max(1, -(-len(hits) // across)) for hits in neighbors]
    step = TILE + 2 * LINE + GAP
    width = 2 * MARGIN + (across + 1) * (TILE + GAP) + GAP
    height = 2 * MARGIN + sum(lines) * step + (len(lines) - 1) * GAP
    sheet = Image.new("RGB", (width, height), PAPER)
    draw, font = ImageDraw.Draw(sheet), load_font(12)

    def place(image: Image.Image | None, x: int, y: int, *captions: str) -> None:
        sheet.paste(fit_tile(image), (x, y))
        for line, (text, color) in enumerate(zip(captions, (INK, FAINT), strict=True)):
            spot = (x, y + TILE + 2 + line * LINE)
            draw.text(spot, shorten(on_one_line(text), font), fill=color, font=font)

    y = MARGIN
    for hits, query, n_lines in zip(neighbors, queries, lines, strict=True):
        place(query, MARGIN, y, "query", Path(hits.query).name)
        frame = (MARGIN - 3, y - 3, MARGIN + TILE + 2, y + TILE + 2)
        draw.rectangle(frame, outline=FRAME, width=3)
        for k, hit in enumerate(hits):
            x = MARGIN + (k % across + 1) * (TILE + GAP) + GAP
            score = f"{hit.score:.3f}" + f"  {hit.class_name}" * bool(hit.class_name)
            name = Path(hit.name).name or hit.name
            place(images[hit.name], x, y + k // across * step, score, name)
        y += n_lines * step + GAP
    return sheet


def fit_tile(image: Image.Image | None) -> Image.Image:
    """The whole image within a tile, small ones with their pixels kept square."""
    tile = Image.new("RGB", (TILE, TILE), BLANK)
    if image is None:
        return tile
    scale = TILE / max(image.size)
    how = Image.Resampling.NEAREST if scale >= 2 else Image.Resampling.LANCZOS
    width, height = (max(1, round(side * scale)) for side in image.size)
    small = image.convert("RGB").resize((width, height), how)
    tile.paste(small, ((TILE - width) // 2, (TILE - height) // 2))
    return tile


def write_tile(text: str) -> Image.Image:
    """A sentence as a tile."""
    tile, font = Image.new("RGB", (TILE, TILE), PAPER), load_font(14)
    lines = [""]
    for word in on_one_line(text).split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= TILE - GAP or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    shown = [shorten(line, font) for line in lines[: (TILE - GAP) // LINE]]
    ImageDraw.Draw(tile).multiline_text((GAP / 2, GAP / 2), "\n".join(shown), INK, font)
    return tile


def shorten(text: str, font: ImageFont.FreeTypeFont) -> str:
    """As much of a text as fits under a tile: the beginning and the end."""
    if font.getlength(text) <= TILE:
        return text
    for keep in range(len(text) - 1, 1, -1):
        head = keep // 2
        short = text[:head] + "…" + text[len(text) - (keep - head) :]
        if font.getlength(short) <= TILE:
            return short
    return "…"


def load_font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along and which knows most alphabets."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(path), size)
