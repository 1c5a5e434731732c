"""What is searched: pictures embedded as they go by, or embeddings made before."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageOps

from ..data import describe_unreadable, explain_unreadable
from ..encoders import Encoder
from ..errors import DataError, InvarianceError
from ._contact_sheet import Picture
from ._embedding_files import open_embeddings
from ._embeddings import About, Embeddings, Rows, in_blocks
from ._encoded import encoded
from ._images import Images, open_images
from ._progress import Counter
from ._ready import mark_of


@dataclass(frozen=True, eq=False)
class Gallery:
    """Rows to be searched, once and in order."""

    about: About
    rows: Callable[[], Iterator[Rows]]
    folder: Path | None
    picture: Picture


def kept(data: Any, encoder: Encoder, told: list[str]) -> Gallery:
    """A gallery that was embedded before, if it was by this encoder."""
    if isinstance(data, Embeddings):
        labelled = data.labels is not None
        about = About(len(data), data.features.shape[1], labelled, data.class_names)
        mark, rows, name = data.encoder, (lambda: in_blocks(data)), "The embeddings"
    else:
        about, rows = open_embeddings(data)
        mark, name = about.encoder, repr(str(data))
    if mark and mark != mark_of(encoder):
        raise DataError(
            f"{name} was made with another encoder ({about.encoder_name or 'unknown'}, "
            f"{about.width} features): search with the run it was made with, or embed "
            "the images again."
        )
    if not mark:
        told.append(
            f"{name} does not say which encoder made it: take care it was this."
        )
    if about.n == 0:
        raise DataError(f"{name} holds no rows: there is nothing to search.")
    folder = Path(about.data) if about.data and Path(about.data).is_dir() else None

    @cache
    def images() -> Images | None:
        try:
            if about.data is None:
                return None
            return open_images(
                about.data, encoder.input_shape, split=about.split, limit=about.limit
            )
        except InvarianceError:
            return None

    def picture(name: str) -> Image.Image | None:
        if folder is not None:
            return from_file(folder / name)
        source = images()
        return from_items(source, name) if source is not None else None

    return Gallery(about, rows, folder, picture)


def passing(
    encoder: Encoder,
    images: Images,
    batch_size: int,
    device: torch.device,
    max_bad_fraction: float,
    told: list[str],
    quiet: bool,
) -> Gallery:
    """A gallery that is embedded as it is searched."""
    about = About(len(images), encoder.width, class_names=images.class_names)

    def rows() -> Iterator[Rows]:
        bad = dict(images.unreadable)
        with Counter(len(images), quiet=quiet) as counter:
            for part in encoded(
                encoder,
                images,
                batch_size=batch_size,
                device=device,
                max_bad_fraction=max_bad_fraction,
            ):
                names = [images.names[i] for i in part.rows.tolist()]
                bad |= {images.names[i]: why for i, why in part.unreadable.items()}
                yield Rows(names, part.labels.numpy(), part.features.numpy())
                counter.reach(part.stop)
        told.extend(describe_unreadable(bad, "left out"))

    def picture(name: str) -> Image.Image | None:
        if images.folder is not None:
            return from_file(images.folder / name)
        return from_items(images, name)

    return Gallery(about, rows, images.folder, picture)


def from_file(path: Path) -> Image.Image | None:
    """The picture in a file, or None if it is gone."""
    try:
        return open_query(path)[1]
    except DataError:
        return None


def from_items(images: Images, name: str) -> Image.Image | None:
    """The picture of that name as the encoder saw it."""
    try:
        pixels, _ = images.items.read(list(images.names).index(name))
    except Exception:  # gone or broken since: the sheet shows a grey tile
        return None
    array = pixels.permute(1, 2, 0).numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def open_query(query: Any) -> tuple[str, Image.Image]:
    """What a query is called, and its picture, upright."""
    if isinstance(query, Image.Image):
        return getattr(query, "filename", "") or "query", query
    path = Path(query).expanduser()
    if not path.exists():
        raise DataError(f"There is no query image {str(query)!r}: check the path.")
    try:
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image)
            upright.load()
            return str(query), upright
    except Exception as cause:
        what = "a folder" if path.is_dir() else explain_unreadable(cause)
        raise DataError(
            f"The query {str(query)!r} cannot be read as an image ({what})."
        ) from None
