"""The pictures of a run: what the report's map, neighbors and views are made from.

    gallery/gallery.json    names, labels, clusters, places on the map, neighbors
            thumbnails.jpg  all pictures on one sheet, row by row
            views.png       some pictures, and below each the views of it

Features h of at most 2,000 samples, evenly spread over the test part (the training data
where there is none), are compared by cosine. The map is t-SNE of their first principal
components. Everything is computed from fixed seeds in one thread (see
``one_blas_thread``), so that the same encoder gives the same gallery.
"""

import contextlib
import functools
import json
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image, ImageDraw
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from ..data import Source
from ..devices import run_beside
from ..encoders import Towers
from ..errors import InvarianceError, NotFiniteError
from ..evaluation import encode_batch, spread_rows
from ..folder import GALLERY, write_whole
from ..plain_numbers import check_whole
from ._make_plan import make_plan
from ._run_plan import Plan
from ._settings import Train

MOST = 2000
THUMBNAIL = 64  # pixels, at most
CARD, LETTERS, LINES = 96, 15, 7  # pixels of a text, letters in a line, lines
COLUMNS = 50
NEIGHBORS = 10
CAPTIONED = 10  # captions that are shown
CLUSTERS = 10  # where no labels say how many
CHUNK = 250
MAP_STEPS = 500  # as many neighbors stay together as after 1,000, in half the time
VIEWED = 10  # pictures whose views are shown
VIEW = 96  # pixels, at most
GAP = 4


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have NumPy's matrix products run in one thread, while a gallery is being made.

    That number is the whole process's, and whoever changes it puts back what it has
    found. It is set here, by the thread that waits for all others: if the map set it
    beside k-means, which does so too, one of them could leave it at one for good.
    """
    import sklearn.cluster  # noqa: F401, a library is limited once it is loaded

    with threadpool_limits(1, user_api="blas"):
        yield


def begin_gallery(
    plan: Plan,
    encoder: nn.Module,
    folder: Path,
    device: Any,
    towers: Towers | None = None,
) -> Callable[[], str | None]:
    """Begin the gallery of a run: its map is drawn by one core, beside other work.

    Both this and waiting for the map belong inside ``one_blas_thread``.
    Calling what comes back writes ``gallery/`` into the folder, and gives what stood in
    the way, in words, or None. A run is complete without it, so a full disk or a lost
    picture ends nothing.
    """
    problem = write = None
    try:
        write = _begin(plan, encoder, folder / GALLERY, device, towers)
    except (InvarianceError, OSError) as cause:
        problem = f"The report has no pictures: {cause}"

    def finish() -> str | None:
        try:
            if write is not None:
                write()
        except (InvarianceError, OSError) as cause:
            return f"The report has no pictures: {cause}"
        return problem

    return finish


def _begin(
    plan: Plan, encoder: nn.Module, place: Path, device: Any, towers: Towers | None
) -> Callable[[], None]:
    source, part = (plan.source, "train") if plan.test is None else (plan.test, "test")
    rows = spread_rows(len(source), MOST)
    sheet, texts, h = pictures_and_features(source, rows, encoder, device)
    if not np.isfinite(h).all():
        raise NotFiniteError("some features are not finite numbers.")
    views = view_sheet(plan, device)
    labels = None if source.labels is None else source.labels.cpu()[rows].tolist()
    unit = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)
    groups = find_groups(unit, len(set(labels)) if labels else CLUSTERS)
    captions = [] if towers is None else find_captions(source, rows, h, towers)
    draw_map = run_beside(functools.partial(lay_out, unit))

    def write() -> None:
        place.mkdir(exist_ok=True)
        # all colors at full resolution: half would run from one picture to the next
        sheet.save(place / "thumbnails.jpg", quality=88, subsampling=0, optimize=True)
        views.save(place / "views.png", optimize=True)
        paths, numbers, word = source.paths, rows.tolist(), source.kind.word
        columns = min(COLUMNS, len(rows))
        about = {
            "size": sheet.width // columns,
            "columns": columns,
            "count": len(rows),
            "of": len(source),
            "source": part,
            "names": [paths[i] if paths else f"{word} {i}" for i in numbers],
            **({"texts": texts} if texts else {}),
            **({"captions": captions} if captions else {}),
            "labels": labels,
            "class_names": list(source.class_names),
            "map": np.round(draw_map().astype(np.float64), 3).tolist(),
            **groups,
        }
        # last: where it is, the pictures are whole. A file's name may hold what no
        # encoding can write, so everything but ASCII is escaped
        text = json.dumps(about).encode("ascii")
        advice = "The report of this run has no pictures."
        write_whole(place / "gallery.json", text, advice=advice)

    return write


def find_captions(
    source: Source,
    rows: Int[Tensor, " n"],
    h: Float[np.ndarray, "n e"],
    towers: Towers,
) -> list[dict[str, Any]]:
    """Some captions of the pictures, each with the pictures nearest to it.

    A picture is right if its caption is of the same class, where captions have any; or
    else if the caption is its own.
    """
    other = source.other
    assert other is not None
    chosen = spread_rows(len(rows), CAPTIONED)
    tokens = next(iter(other.batches([rows[chosen]]))).cpu()
    if other.kind.seen is not other.kind:
        tokens = tokens[:, 0]  # the first of several
    numbers = rows if other.labels is None else other.labels.cpu()[rows]
    scores = towers.encode_tokens(tokens) @ towers.project(torch.from_numpy(h)).T
    best = scores.sort(dim=1, descending=True, stable=True)
    n = min(NEIGHBORS, len(rows))
    return [
        {
            "text": str(other.kind.seen.show(one)),
            "pictures": near[:n].tolist(),
            "scores": [round(score, 4) for score in values[:n].tolist()],
            "right": (numbers[near[:n]] == numbers[mine]).tolist(),
        }
        for one, mine, near, values in zip(
            tokens, chosen, best.indices, best.values, strict=True
        )
    ]


def find_groups(unit: Float[np.ndarray, "n e"], n_clusters: int) -> dict[str, Any]:
    """Clusters of unit rows, and their nearest neighbors with the cosines."""
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    n_near = min(NEIGHBORS, len(unit) - 1)
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :n_near]
    scores = np.take_along_axis(cosines, near, axis=1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than clusters is no harm
        from sklearn.cluster import KMeans  # a second, not wanted before training

        k = min(n_clusters, len(unit))
        clusters = KMeans(k, n_init=3, random_state=0).fit_predict(unit)
    return {
        "clusters": clusters.tolist(),
        "neighbours": near.tolist(),
        "scores": np.round(scores.astype(np.float64), 4).tolist(),
    }


def lay_out(unit: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n 2"]:
    """Two coordinates per row: principal components, then t-SNE where it has enough."""
    n, width = unit.shape
    centered = unit - unit.mean(0)
    if n < 2 or np.abs(centered).max() < 1e-6:  # all the same: there is nothing to map
        return np.zeros((n, 2), dtype=np.float32)
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    with threadpool_limits(1, user_api="openmp"):  # of this thread alone
        parts = PCA(min(50, n, width), svd_solver="full").fit_transform(centered)
        if n < 10:
            parts = np.pad(parts, ((0, 0), (0, max(0, 2 - parts.shape[1]))))
            return parts[:, :2].astype(np.float32)
        tsne = TSNE(
            perplexity=min(30.0, (n - 1) / 3),
            init="pca" if parts.shape[1] > 1 else "random",
            random_state=0,
            max_iter=MAP_STEPS,
        )
        return tsne.fit_transform(parts.astype(np.float32))


@torch.no_grad()
def pictures_and_features(
    source: Source, rows: Tensor, encoder: nn.Module, device: Any
) -> tuple[Image.Image, list[str], Float[np.ndarray, "n e"]]:
    """One pass over the samples: a sheet of thumbnails, texts, and features of each.

    Samples that are shown as a text have cards with it on the sheet.
    """
    columns = min(COLUMNS, len(rows))
    features: list[Tensor] = []
    texts: list[str] = []
    sheet: Image.Image | None = None
    k = 0
    for batch in source.batches(rows.split(CHUNK), device=device):
        features.append(encode_batch(encoder, batch, kind=source.kind).flatten(1))
        for sample in batch.cpu():
            shown = source.kind.show(sample)
            if isinstance(shown, str):
                texts.append(shown)
            picture = draw(shown)
            if sheet is None:
                most = CARD if isinstance(shown, str) else THUMBNAIL
                size = min(most, max(picture.size))
                lines = -(-len(rows) // columns)
                sheet = Image.new("RGB", (columns * size, lines * size))
            spot = (k % columns * size, k // columns * size)
            sheet.paste(fit_square(picture, size), spot)
            k += 1
    assert sheet is not None
    return sheet, texts, torch.cat(features).numpy()


def show_views(
    settings: Train | None = None,
    *,
    samples: int = VIEWED,
    epochs: int = 2,
    data: Any = None,
) -> Image.Image:
    """A contact sheet of what the encoder would see, before anything is trained.

    A column per sample: the sample itself, then its views in the first epochs. A
    notebook shows the picture; ``.save("sheet.png")`` keeps it.

    Args:
        settings: As for ``train``; data, views, method and seed matter.
        samples: How many, spread over the data.
        epochs: How many times the views are drawn.
        data: Samples that settings cannot name, as for ``train``.

    >>> show_views(Train(limit=64), samples=4, epochs=1).size
    (396, 296)
    """
    check_whole("samples", samples, 1)
    check_whole("epochs", epochs, 1)
    plan = make_plan(settings or Train(), data=data)
    return view_sheet(plan, "cpu", samples=samples, epochs=epochs)


def view_sheet(
    plan: Plan, device: Any, *, samples: int = VIEWED, epochs: int = 1
) -> Image.Image:
    """A column per sample: itself, then its views as the encoder saw them at first."""
    source, n = plan.source, min(samples, len(plan.source))
    rows = spread_rows(len(source), n)
    sides = next(iter(plan.batches([rows], device)))
    seen = [iter(plan.see(sides, rows, epoch=epoch)) for epoch in range(epochs)]
    lines: list[tuple[float, list[Image.Image]]] = []
    for side, batch, view_set in zip(plan.sides, sides, plan.view_sets, strict=True):
        block = [[draw(side.kind.show(sample)) for sample in batch.cpu()]]
        for views in seen:
            for view in (next(views) for _ in view_set.pipelines):
                block.append([draw(side.kind.seen.show(row)) for row in view.cpu()])
        # a view keeps its size beside the others, so that small crops look small
        longest = max(max(picture.size) for line in block for picture in line)
        scale = min(VIEW / longest, max(1, VIEW // longest))
        lines += [(scale, line) for line in block]
    cell = max(round(s * max(p.size)) for s, line in lines for p in line)
    whole = (n * (cell + GAP) - GAP, len(lines) * (cell + GAP) - GAP)
    sheet = Image.new("RGBA", whole)
    for i, (scale, line) in enumerate(lines):
        for k, picture in enumerate(line):
            size = max(1, round(scale * max(picture.size)))
            small, margin = fit_square(picture, size), (cell - size) // 2
            spot = (k * (cell + GAP) + margin, i * (cell + GAP) + margin)
            sheet.paste(small, spot)
    return sheet


def draw(shown: Image.Image | str) -> Image.Image:
    """A picture as it is, a text on a card; what has no room is left out."""
    if not isinstance(shown, str):
        return shown
    card = Image.new("RGB", (CARD, CARD), "white")
    text = "\n".join(textwrap.wrap(shown, LETTERS)[:LINES])
    ImageDraw.Draw(card).multiline_text((3, 3), text, fill="black", spacing=2)
    return card


def fit_square(image: Image.Image, size: int) -> Image.Image:
    """The whole picture in a square, never cut; pixels stay pixels when enlarged."""
    scale = size / max(image.size)
    width, height = (max(1, round(scale * side)) for side in image.size)
    if (width, height) != image.size:
        how = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST
        image = image.resize((width, height), how)
    if image.size == (size, size):
        return image
    square = Image.new("RGB", (size, size))
    square.paste(image, ((size - image.width) // 2, (size - image.height) // 2))
    return square
