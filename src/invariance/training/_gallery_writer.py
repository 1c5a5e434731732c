"""The pictures of a run: what the report's map, neighbors and views are made from.

    gallery/gallery.json    names, labels, clusters, places on the map, neighbors
            thumbnails.jpg  all pictures on one sheet, row by row
            views.png       some pictures, and below each the views of it

Features h of at most 2,000 images, evenly spread over the test part (the training data
where there is none), are compared by cosine. The map is t-SNE of their first principal
components. Everything is computed from fixed seeds in one thread (see
``one_blas_thread``), so that the same encoder gives the same gallery.
"""

import contextlib
import functools
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from PIL import Image
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from ..data import Source
from ..devices import run_beside
from ..errors import InvarianceError
from ..evaluation import encode_batch, spread_rows
from ..folder import GALLERY, write_whole
from ._run_plan import Plan

MOST = 2000
THUMBNAIL = 64  # pixels, at most
COLUMNS = 50
NEIGHBORS = 10
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
    plan: Plan, encoder: nn.Module, folder: Path, device: Any
) -> Callable[[], str | None]:
    """Begin the gallery of a run: its map is drawn by one core, beside other work.

    Both this and waiting for the map belong inside ``one_blas_thread``.
    Calling what comes back writes ``gallery/`` into the folder, and gives what stood in
    the way, in words, or None. A run is complete without it, so a full disk or a lost
    picture ends nothing.
    """
    try:
        write = _begin(plan, encoder, folder / GALLERY, device)
    except (InvarianceError, OSError) as cause:
        problem = f"The report has no pictures: {cause}"
        return lambda: problem

    def finish() -> str | None:
        try:
            return write()
        except (InvarianceError, OSError) as cause:
            return f"The report has no pictures: {cause}"

    return finish


def _begin(
    plan: Plan, encoder: nn.Module, place: Path, device: Any
) -> Callable[[], str | None]:
    source, part = (plan.source, "train") if plan.test is None else (plan.test, "test")
    rows = spread_rows(len(source), MOST)
    sheet, h = pictures_and_features(source, rows, encoder, device)
    if not np.isfinite(h).all():
        problem = "The report has no pictures: some features are not finite numbers."
        return lambda: problem
    views = view_sheet(plan, device)
    labels = None if source.labels is None else source.labels.cpu()[rows].tolist()
    unit = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)
    groups = find_groups(unit, len(set(labels)) if labels else CLUSTERS)
    draw_map = run_beside(functools.partial(lay_out, unit))

    def write() -> str | None:
        place.mkdir(exist_ok=True)
        # all colors at full resolution: half would run from one picture to the next
        sheet.save(place / "thumbnails.jpg", quality=88, subsampling=0, optimize=True)
        views.save(place / "views.png", optimize=True)
        paths, numbers = source.paths, rows.tolist()
        columns = min(COLUMNS, len(rows))
        about = {
            "size": sheet.width // columns,
            "columns": columns,
            "count": len(rows),
            "of": len(source),
            "source": part,
            "names": [paths[i] if paths else f"image {i}" for i in numbers],
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
        return None

    return write


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
) -> tuple[Image.Image, Float[np.ndarray, "n e"]]:
    """One pass over the images: a sheet of thumbnails, and the features of each."""
    size = min(THUMBNAIL, max(source.shape[1:]))
    columns = min(COLUMNS, len(rows))
    sheet = Image.new("RGB", (columns * size, -(-len(rows) // columns) * size))
    features: list[Tensor] = []
    k = 0
    for images in source.batches(rows.split(CHUNK), device=device):
        features.append(encode_batch(encoder, images).flatten(1))
        for image in images.cpu():
            spot = (k % columns * size, k // columns * size)
            sheet.paste(fit_square(picture(image), size), spot)
            k += 1
    return sheet, torch.cat(features).numpy()


def view_sheet(plan: Plan, device: Any) -> Image.Image:
    """A column per picture: itself, then its views as the encoder saw them at first."""
    source, n = plan.source, min(VIEWED, len(plan.source))
    rows = spread_rows(len(source), n)
    images = next(iter(source.batches([rows], device=device)))
    views = plan.views(images, samples=rows, seed=plan.settings.seed, epoch=0)
    side = max(max(batch.shape[2:]) for batch in (images, *views))
    # every view keeps its size beside the others, so that small crops look small
    scale = min(VIEW / side, max(1, VIEW // side))
    cell = round(scale * side)
    lines = [images, *views]
    whole = (n * (cell + GAP) - GAP, len(lines) * (cell + GAP) - GAP)
    sheet = Image.new("RGBA", whole)
    for i, line in enumerate(lines):
        for k, image in enumerate(line.cpu()):
            size = max(1, round(scale * max(image.shape[1:])))
            small, margin = fit_square(picture(image), size), (cell - size) // 2
            spot = (k * (cell + GAP) + margin, i * (cell + GAP) + margin)
            sheet.paste(small, spot)
    return sheet


def picture(image: Shaped[Tensor, "c h w"]) -> Image.Image:
    """A tensor as a picture: grey, or the first three of its channels."""
    channels = image[:3] if len(image) >= 3 else image[:1].expand(3, -1, -1)
    return Image.fromarray(as_bytes(channels).permute(1, 2, 0).contiguous().numpy())


def as_bytes(image: Shaped[Tensor, "c h w"]) -> UInt8[Tensor, "c h w"]:
    """Floats in [0, 1] as bytes; others, as after a normalization, from end to end."""
    if image.dtype == torch.uint8:
        return image
    image = image.float().nan_to_num(0, 0, 0)
    low, high = image.min(), image.max()
    if low < -0.01 or high > 1.01:
        image = (image - low) / (high - low)
    return (255 * image).round().clamp(0, 255).to(torch.uint8)


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
