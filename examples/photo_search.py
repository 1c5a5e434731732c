"""A folder of photos: learn from it, embed it, and search it by example.

    python examples/photo_search.py --folder photos --query photos/cat.jpg
    python examples/photo_search.py                   # a generated folder

Nothing needs a label or a name. Training sees every photo in random crops and colors;
what stays the same is what a photo shows. The features go into a file, so that a search
of a large folder takes no second pass, and the result is a sheet of pictures. In class
folders, the share of hits of the query's class is shown, before and after training.
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
    """The share of hits that lie in the folder of their query."""
    hits = [(Path(hits.query).parent.name, hit) for hits in found for hit in hits]
    return sum(hit.class_name == folder for folder, hit in hits) / len(hits)


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
        query: Photos to search for; none are the first of some folders.
        n: Generated photos.
        epochs: Passes over the photos.
        k: Hits per query.
        out: Where the run folder goes.
    """
    views = "auto" if folder else "shapes"
    if folder is None:
        folder = write_photos(Path(tempfile.mkdtemp()), n)
    homes = sorted(p for p in (folder, *folder.iterdir()) if p.is_dir())
    queries = [*query] or [next(iter(sorted(h.glob("*.*")))) for h in homes[1:6]]
    run = inv.train(
        inv.Train(data=str(folder), epochs=epochs, views=views, out=str(out))
    )

    file = run.folder / "photos.parquet"
    inv.write_embeddings(run, folder, file)  # killed and repeated, it goes on
    sheet = run.folder / "found.png"
    found = inv.search(run, file, queries, k=k + 1, sheet=sheet)
    print(found)
    untrained = inv.encoders.build_encoder("tiny", image_size=32)
    before = count_hits(inv.search(untrained, folder, queries, k=k + 1))
    after = count_hits(found)
    print(f"hits of the query's folder: {before:.1%} untrained, {after:.1%} trained")
    print(f"pictures: {sheet}, features: {file}")
    return before, after


if __name__ == "__main__":
    tyro.cli(main)
