r"""Search by example: the images of a gallery that are most like a query.

A query is an image or, where a run was trained on images and captions, a sentence; then
s compares projections of both, and otherwise features of the one encoder.

$$s_{qi} = \frac{\langle h_q, h_i\rangle}{\|h_q\|\,\|h_i\|},\qquad
\text{top-}k_i\ s_{qi}\ \text{for every query}\ q$$

The gallery is data, embedded on the way and not kept, or what ``embed`` made of them
before, so that nothing is computed twice. It may be of any length: it is gone through
once, and only the best k so far are held.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from ..data import Row, Samples, Text, describe_unreadable, open_image
from ..devices import choose_device
from ..encoders import Encoder
from ..errors import (
    DataError,
    InvarianceError,
    NotFiniteError,
    SettingError,
    ShapeError,
)
from ..folder import require_place, write_whole
from ..markup import html_sentences
from ..plain_numbers import check_least
from ..progress import Progress, tell
from ..words import count
from ._contact_sheet import draw_contact_sheet
from ._embed import encode_all, name_unreadable
from ._embed_request import Request, check_request
from ._embedding_files import About, Blocks, Rows, is_embedding_file, open_embeddings
from ._embeddings import Embeddings
from ._hits_html import show_hits
from ._inputs import (
    NamedImages,
    find_folder,
    mark_encoder,
    on_one_line,
    open_encoder,
    open_images,
)
from ._open import find_own_data
from ._queries import ask_by_sample, ask_in_words, draw_sample, list_queries


@dataclass(frozen=True)
class Hit:
    """One image of the gallery.

    Attributes:
        rank: 1 for the most similar.
        name: its path below the folder searched, or its number.
        score: the cosine similarity to the query, at most 1.
        label: its class number, if it has one.
        class_name: what the number means; "" if nothing.
        path: leads to the file if there is one.
    """

    rank: int
    name: str
    score: float
    label: int | None = None
    class_name: str = ""
    path: str | None = None


@dataclass(frozen=True)
class Hits:
    """The images most like one query, best first."""

    query: str
    hits: tuple[Hit, ...]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return show_hits([self], "sample")

    def lines(self, where: str = "") -> list[str]:
        """The query, and a line per image found."""
        return [
            f"{on_one_line(self.query)}{where}:",
            *(
                f"{hit.rank:>4}  {hit.score:6.3f}  {on_one_line(hit.path or hit.name)}"
                + f"  {hit.class_name}" * bool(hit.class_name)
                for hit in self.hits
            ),
        ]


@dataclass(frozen=True)
class SearchResult:
    """The images of a gallery that are most like each query.

    Attributes:
        neighbors: one ``Hits`` per query, in the order of the queries.
        n_gallery: how many images were searched.
        notes: sentences on what a reader should know.
        word: what a sample of the gallery is called.
    """

    neighbors: tuple[Hits, ...]
    n_gallery: int
    notes: tuple[str, ...] = ()
    word: str = "image"

    def __len__(self) -> int:
        return len(self.neighbors)

    def __iter__(self) -> Iterator[Hits]:
        return iter(self.neighbors)

    def __repr__(self) -> str:
        return "\n".join([*self.lines(), *self.notes])

    def lines(self) -> list[str]:
        """A line per query, and below it a line per image found."""
        where = f" in {count(self.n_gallery, self.word)}"
        return [line for hits in self.neighbors for line in hits.lines(where)]

    def _repr_html_(self) -> str:
        """The pictures found, or a table with a line for each, for notebooks."""
        searched = f"{count(self.n_gallery, self.word)} searched"
        hits = show_hits(self.neighbors, self.word)
        return html_sentences([searched]) + hits + html_sentences(self.notes)


def search(
    run_or_encoder: Any,
    data: Any = None,
    query: Any = None,
    *,
    text: str | Sequence[str] | None = None,
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
) -> SearchResult:
    """The k images of a gallery that are most like each query.

    The gallery is ``data`` as for ``embed``, a file that 'invariance embed' wrote, or
    an ``Embeddings``; None is what the run was trained on. A query is an image file, a
    Pillow image or an array of one image, or ``text``, a sentence, for a run on images
    and captions; several are given as a list. ``sheet`` names a PNG file to draw the
    result into. All other arguments are those of ``embed``.

    >>> from PIL import Image
    >>> from invariance.data import shapes
    >>> from invariance.encoders import build_encoder
    >>> query = Image.fromarray(shapes(3)[0][2].permute(1, 2, 0).numpy())
    >>> result = search(build_encoder("tiny"), "shapes", query, k=2, limit=20)
    >>> [hit.name for hits in result for hit in hits][0]  # itself
    '2'
    """
    check_least("k", k, 1)
    data = find_own_data(run_or_encoder) if data is None else data
    request = check_request(
        run_or_encoder,
        data,
        split=split,
        limit=limit,
        batch_size=batch_size,
        workers=workers,
        data_root=data_root,
        max_bad_fraction=max_bad_fraction,
    )
    if sheet is not None and Path(sheet).suffix.lower() != ".png":
        raise SettingError(f"The contact sheet is a .png file: got {str(sheet)!r}.")
    if sheet is not None:
        require_place(Path(sheet))
    where = choose_device(device)
    encoder, encoder_notes = open_encoder(run_or_encoder)
    encoder = encoder.to(where)
    if isinstance(data, Samples) and data.kind == encoder.kind:
        encoder.kind = data.kind  # one's own, which a file alone cannot rebuild
    word = "image" if encoder.kind is None else encoder.kind.word
    if text and isinstance(encoder.kind, Text):  # what it has learned from
        query, text = [*list_queries(query), *list_queries(text)], None
    asked = ask_in_words(run_or_encoder, text, where) if text else None
    if asked is None:
        asked = ask_by_sample(encoder, query, where)
    elif query is not None:
        raise SettingError(
            f"Queries are {word}s or sentences, not both at once: search twice."
        )
    for note in encoder_notes:
        tell(note, quiet=quiet)
    nearest = Nearest(asked.rows, k=k)
    in_tables = isinstance(encoder.kind, Row | Text)
    if isinstance(data, Embeddings) or is_embedding_file(data, or_table=in_tables):
        gallery = open_embedded(data, encoder, run_or_encoder)
    else:
        images = open_images(request, encoder)
        for note in images.notes:
            tell(note, quiet=quiet)
        gallery = embed_as_searched(
            encoder, images, quiet=quiet, batch_size=batch_size, device=where
        )
    known: dict[int, tuple[str, int]] = {}  # names and labels of the best rows
    for rows in gallery.blocks():
        first = nearest.n
        nearest.add(
            asked.compare(torch.from_numpy(np.array(rows.features, np.float32)))
        )
        known = {
            i: known[i]
            if i < first
            else (rows.names[i - first], int(rows.labels[i - first]))
            for i in nearest.rows.unique().tolist()
        }
    notes = [*asked.notes, *gallery.notes]
    if nearest.n < k:
        notes.append(
            f"The gallery has {count(nearest.n, word)}, fewer than k = {k}: all are "
            "shown."
        )
    neighbors = []
    for name, *best in zip(
        asked.names, nearest.rows.tolist(), nearest.scores.tolist(), strict=True
    ):
        hits = (
            gallery.make_hit(rank, *known[row], score)
            for rank, (row, score) in enumerate(zip(*best, strict=True), 1)
        )
        neighbors.append(Hits(name, tuple(hits)))
    if sheet is not None:
        shown = {hit.name: gallery.find(hit.name) for hits in neighbors for hit in hits}
        drawn = draw_contact_sheet(neighbors, asked.pictures, shown)
        advice = "Choose another place or make room, and search again."
        write_whole(Path(sheet), lambda file: drawn.save(file, "PNG"), advice=advice)
        if n_missing := sum(image is None for image in shown.values()):
            notes.append(
                f"{n_missing} of the {word}s found cannot be shown in the sheet: "
                "they are gone, or nothing says where to find them."
            )
    return SearchResult(tuple(neighbors), nearest.n, tuple(notes), word)


class Nearest:
    """The best rows of a gallery so far, ``scores`` and ``rows`` (q k), best first.

    Of equal scores the earlier row comes first. A gallery of fewer than k rows gives
    them all.

    >>> best = Nearest(torch.tensor([[0.0, 1.0]]), k=2)
    >>> best.add(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> best.add(torch.tensor([[3.0, 3.0]]))
    >>> best.rows.tolist(), best.n
    ([[1, 2]], 3)
    """

    def __init__(self, queries: Float[Tensor, "q e"], *, k: int) -> None:
        self.k, self.n = k, 0
        self.unit = normalize(queries.float(), dim=1)
        if not bool(self.unit.isfinite().all()):
            raise NotFiniteError(
                "The features of a query are not finite: the encoder has diverged."
            )
        self.scores: Float[Tensor, "q k"] = self.unit.new_empty(len(queries), 0)
        self.rows: Int[Tensor, "q k"] = torch.empty(len(queries), 0, dtype=torch.long)

    def add(self, block: Float[Tensor, "b e"]) -> None:
        """The next rows of the gallery."""
        if block.shape[1] != self.unit.shape[1]:
            raise ShapeError(
                f"The gallery has {block.shape[1]} features and the queries have "
                f"{self.unit.shape[1]}: embed both with the same encoder."
            )
        scores = self.unit @ normalize(block.float(), dim=1).T
        scores = scores.clamp(-1, 1)  # rounding may push a cosine out
        scores = scores.nan_to_num(-torch.inf)  # NaN is similar to nothing
        scores = torch.cat([self.scores, scores], 1)
        rows = torch.arange(self.n, self.n + len(block)).expand(len(scores), -1)
        rows = torch.cat([self.rows, rows], 1)
        order = scores.argsort(dim=1, descending=True, stable=True)[:, : self.k]
        self.scores, self.rows = scores.gather(1, order), rows.gather(1, order)
        self.n += len(block)


@dataclass(frozen=True, eq=False)
class Gallery:
    """Rows to be searched, once and in order.

    Attributes:
        about: what the rows are.
        blocks: the rows; while they are gone through, ``notes`` may grow.
        folder: where the names are paths in, if they are paths.
        images: the images themselves, where they can still be had.
        notes: sentences on what a reader should know.
    """

    about: About
    blocks: Blocks
    folder: Path | None
    images: Callable[[], NamedImages | None]
    notes: list[str]

    def make_hit(self, rank: int, name: str, label: int, score: float) -> Hit:
        """A row of the gallery as a hit."""
        return Hit(
            rank,
            name,
            score,
            label if label >= 0 else None,
            self.about.class_name(label),
            str(self.folder / name) if self.folder is not None else None,
        )

    def find(self, name: str) -> Image.Image | None:
        """The image of that name; None where it cannot be had."""
        try:
            if self.folder is not None:
                return open_image(self.folder / name)
            if (images := self.images()) is None:
                return None
            sample, _ = images.items.read(list(images.names).index(name))
            return draw_sample(images.items.kind, sample)
        except Exception:  # it is gone, or a data set of one's own raises anything
            return None


def open_embedded(data: Embeddings | str | Path, encoder: Encoder, run: Any) -> Gallery:
    """A gallery that was embedded before, if it was by this encoder."""
    if isinstance(data, Embeddings):
        about, blocks, title = data.about(), data.blocks, "The gallery"
    else:
        about, blocks = open_embeddings(data)
        title = repr(str(data))
    if about.encoder and about.encoder != mark_encoder(encoder):
        raise DataError(
            f"{title} was made with another encoder "
            f"({about.encoder_name or 'unknown'}, {about.width} features): search with "
            "the run it was made with, or embed the images again."
        )
    if about.n == 0:
        raise DataError(f"{title} holds no rows: there is nothing to search.")
    notes = []
    if not about.encoder:
        doubt = "does not say which encoder made it: make sure it was this one."
        notes.append(f"{title} {doubt}")
    if about.part is not None:
        notes.append(
            f"{title} is shard {about.part.number}/{about.part.of}: the other parts "
            "are not searched."
        )

    @cache
    def reopen() -> NamedImages | None:
        try:
            if about.data is None:
                return None
            how: dict[str, Any] = {"split": about.split, "limit": about.limit}
            return open_images(Request(run, about.data, **how), encoder)
        except InvarianceError:
            return None

    return Gallery(about, blocks, find_folder(about.data, encoder.kind), reopen, notes)


def embed_as_searched(
    encoder: Encoder, images: NamedImages, *, quiet: bool, **how: Any
) -> Gallery:
    """A gallery that is embedded while it is searched."""
    about = About(len(images), encoder.width, class_names=images.class_names)
    notes: list[str] = []

    def blocks() -> Iterator[Rows]:
        missed: dict[int, str] = {}
        unit = f"{images.items.kind.word}s"
        with Progress(len(images), unit=unit, quiet=quiet) as progress:
            for part in encode_all(encoder, images, **how):
                missed |= part.unreadable
                names = [images.names[i] for i in part.rows.tolist()]
                yield Rows(names, part.labels.numpy(), part.features.numpy())
                progress.reach(part.stop)
        bad = name_unreadable(images, missed)
        notes.extend(describe_unreadable(bad, "left out", encoder.kind))

    return Gallery(about, blocks, images.folder, lambda: images, notes)
