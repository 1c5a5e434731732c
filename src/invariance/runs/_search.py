"""Search by example: the pictures of a gallery that are most like a query.

The gallery is data, embedded on the way and not kept, or what ``embed`` made of them
before, so that nothing is computed twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..data import crop_square
from ..encoders import Encoder
from ..errors import SettingError
from ..training._checkpoint import write_whole
from ._contact_sheet import Picture, contact_sheet
from ._embedding_files import is_embedding_file
from ._embeddings import Embeddings
from ._gallery import Gallery, kept, open_query, passing
from ._images import open_images
from ._neighbours import Nearest
from ._progress import tell
from ._ready import place, ready


@dataclass(frozen=True)
class Hit:
    """One picture found.

    ``score`` is the cosine similarity, at most 1; ``name`` is the picture's path below
    the folder searched or its number; ``path`` leads to the file if there is one.
    """

    rank: int
    name: str
    score: float
    label: int | None = None
    class_name: str = ""
    path: str | None = None


@dataclass(frozen=True)
class Hits:
    """What was found for one query, best first."""

    query: str
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class Found:
    """What was found for every query, in a gallery of so many pictures."""

    neighbours: tuple[Hits, ...]
    n_gallery: int
    notes: tuple[str, ...] = ()


def search(
    run_or_encoder: Any,
    data: Any,
    query: Any,
    *,
    k: int = 10,
    sheet: str | Path | None = None,
    split: str = "all",
    limit: int | None = None,
    batch_size: int = 256,
    device: str = "auto",
    workers: int | None = None,
    data_root: str | Path | None = None,
    max_bad_fraction: float | int = 0.2,
    quiet: bool = True,
) -> Found:
    """The k pictures of a gallery that are most like each query.

    Args:
        run_or_encoder: a run, its folder, an encoder file, or an encoder.
        data: the gallery: data as for ``embed``, a file that 'invariance embed' wrote,
            or an ``Embeddings``.
        query: an image file or a Pillow image, or several.
        k: how many to find.
        sheet: also draw them into this PNG file.
        split: part of the data: "train", "test" or "all".
        limit: at most so many pictures, evenly spread.
        batch_size: pictures encoded at once.
        device: "auto" takes a GPU if there is one.
        workers: decoding processes; by default as many as cores for image files.
        data_root: where named sets are kept.
        max_bad_fraction: more unreadable pictures than this share are an error.
        quiet: say nothing while it works.
    """
    if k < 1:
        raise SettingError(f"k is 1 or more: got {k}.")
    if sheet is not None and Path(sheet).suffix.lower() != ".png":
        raise SettingError(f"The contact sheet is a .png file: got {str(sheet)!r}.")
    if sheet is not None and not Path(sheet).parent.is_dir():
        raise SettingError(
            f"There is no folder {str(Path(sheet).parent)!r} to write into."
        )
    encoder, notes = ready(run_or_encoder)
    where = place(device)
    queries = list(query) if isinstance(query, list | tuple) else [query]
    asked = [open_query(q) for q in queries]
    if not asked:
        raise SettingError("Name at least one query image.")
    for note in notes:
        tell(note, quiet=quiet)
    probes = encode(encoder, asked, where)
    told: list[str] = []
    if isinstance(data, Embeddings) or is_embedding_file(data):
        gallery = kept(data, encoder, told)
    else:
        bad = float(max_bad_fraction)
        images = open_images(
            data,
            encoder.input_shape,
            split=split,
            limit=limit,
            workers=workers,
            data_root=data_root,
            max_bad_fraction=bad,
        )
        tell(images.notes[0], quiet=quiet)
        gallery = passing(encoder, images, batch_size, where, bad, told, quiet)
    best = Nearest(probes, k=k)
    known: dict[int, tuple[str, int]] = {}  # names and labels of the best rows
    for r in gallery.rows():
        first = best.n
        best.add(torch.from_numpy(np.array(r.features, np.float32)))
        known = {
            i: known[i] if i < first else (r.names[i - first], int(r.labels[i - first]))
            for i in best.rows.unique().tolist()
        }
    if best.n < k:
        told.append(
            f"The gallery has {best.n} images, fewer than k = {k}: all are shown."
        )
    found = tuple(
        Hits(
            name,
            tuple(
                hit(rank, *known[row], score, gallery)
                for rank, (row, score) in enumerate(zip(rows, scores, strict=True), 1)
            ),
        )
        for (name, _), rows, scores in zip(
            asked, best.rows.tolist(), best.scores.tolist(), strict=True
        )
    )
    if sheet is not None:
        pictures = [image for _, image in asked]
        if n_missing := save_sheet(Path(sheet), found, pictures, gallery.picture):
            told.append(
                f"{n_missing} of the pictures found cannot be shown in the sheet."
            )
    return Found(found, best.n, tuple(told))


def hit(rank: int, name: str, label: int, score: float, gallery: Gallery) -> Hit:
    """A row of the gallery as something found."""
    return Hit(
        rank,
        name,
        score,
        label if label >= 0 else None,
        gallery.about.word(label),
        str(gallery.folder / name) if gallery.folder is not None else None,
    )


@torch.no_grad()
def encode(
    encoder: Encoder, asked: Sequence[tuple[str, Image.Image]], device: torch.device
) -> Tensor:
    """Features of the queries, brought to the input of the encoder as data are."""
    channels, size = encoder.input_shape[0], encoder.input_shape[-1]
    pixels = [crop_square(image, size, channels) for _, image in asked]
    kind = next((p.dtype for p in encoder.parameters()), torch.float32)
    batch = torch.stack(pixels).to(device).to(kind) / 255
    return encoder.to(device).eval()(batch).float().cpu()


def save_sheet(
    path: Path,
    found: Sequence[Hits],
    queries: Sequence[Image.Image],
    picture: Picture,
) -> int:
    """Draw the contact sheet; gives how many pictures could not be had."""
    names = {hit.name for one in found for hit in one.hits}
    pictures = {name: picture(name) for name in names}
    drawn = contact_sheet(found, queries, pictures.get)
    advice = "Make room or mend the disk, and search again."
    write_whole(path, lambda file: drawn.save(file, "PNG"), advice=advice)
    return sum(image is None for image in pictures.values())
