"""A folder of photos: learn from it, embed it, and search it by example.

    python examples/photo_search.py --folder photos --query photos/cat.jpg
    python examples/photo_search.py                   # a generated folder

No photo needs a label or a name. Training sees every photo in random crops and colors;
what stays the same is what a photo shows. The features go into a file, so searching a
large folder takes no second pass, and the result is a sheet of pictures. With class
folders, it prints the share of hits of the query's class, before and after training.
"""

import tempfile
from pathlib import Path

import tyro
from PIL import Image

import invariance as inv


def write_photos(folder: Path, n: int) -> Path:
    """Generated pictures as files, a folder per class."""
    for number, (picture, label) in enumerate(zip(*inv.data.shapes(n), strict=True)):
        home = folder / inv.data.SHAPE_CLASSES[label]
        home.mkdir(exist_ok=True)
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(home / f"{number}.png")
    return folder


def count_hits(found: inv.SearchResult) -> float:
    """The share of hits in the folder of their query, which finds itself as well."""
    pairs = [(Path(hits.query), hit) for hits in found for hit in hits]
    others = [(photo, hit) for photo, hit in pairs if str(photo) != hit.path]
    right = [photo.parent.name == hit.class_name for photo, hit in others]
    return sum(right) / len(right)


def main(
    folder: Path | None = None,
    query: tuple[Path, ...] = (),
    n: int = 4000,
    epochs: int = 10,
    k: int = 8,
    out: Path = Path("runs"),
) -> tuple[float, float]:
    """Train on the folder, embed it, search it; the share of hits before and after.

    Args:
        folder: Of photos; None generates one.
        query: Photos to search for; by default a few of the folder.
        n: Generated photos.
        epochs: Passes over the photos.
        k: Hits per query.
        out: Where the run folder goes.
    """
    views = "auto" if folder else "shapes"
    if folder is None:
        folder = write_photos(Path(tempfile.mkdtemp()), n)
    photos = sorted(p for p in folder.rglob("*") if p.suffix in (".jpg", ".png"))
    queries = [*query] or photos[:: len(photos) // 5 + 1]
    how = {"epochs": epochs, "views": views, "out": str(out)}
    run = inv.train(inv.Train(data=str(folder), **how))

    file = run.folder / "photos.parquet"
    inv.write_embeddings(run, folder, file)  # killed and repeated, it goes on
    sheet = run.folder / "found.png"
    found = inv.search(run, file, queries, k=k + 1, sheet=sheet)
    print(found)
    encoder = inv.load(run)
    untrained = inv.encoders.build_encoder(encoder.name, kind=encoder.kind)
    before = count_hits(inv.search(untrained, folder, queries, k=k + 1))
    after = count_hits(found)
    print(f"hits of the query's folder: {before:.1%} untrained, {after:.1%} trained")
    print(f"pictures: {sheet}, features: {file}")
    return before, after


if __name__ == "__main__":
    tyro.cli(main)
