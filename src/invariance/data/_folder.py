"""A folder of images, nested as people have them.

* ``train/`` beside ``test/`` (or ``val/``, ``valid/``, ``validation/``): those are the
  splits. Otherwise a tenth is held out by the hash of the path if there are labels.
* A folder that holds nothing but one folder stands for that one.
* Two or more subfolders with images and no image beside them are classes, each with
  all that lies below it; anything else is unlabeled. Class numbers are those of the
  whole folder, whatever the split.
* A ``labels.csv`` with a column of files and one per class says instead which classes
  each image shows.
* The same names and sizes are the same data, wherever the folder lies.

No torch is needed: folders are found and read while it is still being imported.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low

import numpy as np
from jaxtyping import UInt8

from ..errors import DataError
from ..words import count
from ._decode import (
    HEIC,
    HEIC_ADVICE,
    can_read_heic,
    crop_pixels,
    open_image,
    shorter_side,
)
from ._label_file import LABEL_FILE, is_label_file, read_label_file
from ._load_request import (
    Note,
    Origin,
    Request,
    check_unreadable,
    compose,
    explain_unreadable,
)
from ._marks import Mark
from ._pack import Pack, find_pack
from ._recordings import AUDIO
from ._split import split_names

TEST_NAMES = ("test", "val", "valid", "validation")
LARGEST_AUTOMATIC_SIZE = 128
SMALLEST_AUTOMATIC_SIZE = 32
SUFFIXES = {
    *(".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".dib"),
    *(".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".tga"),
    *HEIC,
}
MOST_HEADERS = 2_000


@dataclass(frozen=True)
class ImageFiles:
    """Image files that are to be read, and what is known of them before."""

    root: Path
    paths: tuple[str, ...]
    shape: tuple[int, int, int]
    labels: list[int] | None = None
    class_names: tuple[str, ...] = ()
    tags: list[tuple[int, ...]] | None = None
    unreadable: dict[str, str] = field(default_factory=dict)
    """Files that were left out, with the reason."""
    notes: tuple[Note, ...] = ()
    origin: Origin = field(default_factory=Origin)
    pack: Pack | None = None

    def read(self, i: int) -> UInt8[np.ndarray, "c h w"]:
        """Image i of the packed copy where there is one, otherwise decode file i."""
        packed = None if self.pack is None else self.pack.read(i)
        if packed is not None:
            return packed
        channels, size, _ = self.shape
        image = open_image(self.root / self.paths[i], size)
        return crop_pixels(image, size, channels)

    def read_into(
        self, images: UInt8[np.ndarray, "n c h w"], rows: Iterable[int]
    ) -> dict[int, str]:
        """Put these images in their places; gives why some cannot be read."""
        unreadable = {}
        for i in rows:
            try:
                images[i] = self.read(i)
            except Exception as error:
                unreadable[i] = explain_unreadable(error)
        return unreadable


@dataclass
class Walk:
    """What lies below a folder: image files, endings of other files, broken files."""

    files: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)


def find_images(root: Path, request: Request, walk: Walk | None = None) -> ImageFiles:
    """The images of one part; image_size None takes the median shorter side."""
    walk = walk_folder(root) if walk is None else walk
    notes = [*note_others(walk.others)]
    shape, size_notes = choose_shape(root, walk, request)
    notes += size_notes
    base, parts = find_parts(walk.files)
    class_names, label_of = find_classes(walk.files, base, parts)
    mark = mark_files(walk.sizes, base)
    tag_of: dict[str, tuple[int, ...]] = {}
    if is_label_file(root / LABEL_FILE):
        class_names, tag_of = read_label_file(root / LABEL_FILE, walk.files)
        mark.add_labels(repr(tag_of))
    part_of = [name_part(below(f, base), parts) for f in walk.files if parts]
    notes += note_beside(part_of, parts)
    what, labeled = f"The folder {str(root)!r}", bool(class_names)
    rows, n_held_out = split_names(
        walk.files, request, what, labeled=labeled, parts=part_of
    )
    keep = [walk.files[i] for i in rows]
    pack, pack_notes = find_pack(root, mark_copy(walk), len(walk.sizes), shape)
    if pack is not None:
        row = {path: k for k, path in enumerate(walk.sizes)}
        pack = pack.choose([row[path] for path in keep])
    return ImageFiles(
        root,
        tuple(keep),
        shape,
        labels=[label_of[f] for f in keep] if class_names and not tag_of else None,
        class_names=class_names,
        tags=[tag_of[f] for f in keep] if tag_of else None,
        unreadable=walk.unreadable,
        notes=(*notes, *pack_notes),
        origin=Origin(
            str(mark),
            root.resolve().parent.name,
            n_held_out,
            own_test=bool(parts),
            classes_by="folder" if class_names and not tag_of else "",
        ),
        pack=pack,
    )


def choose_shape(
    root: Path, walk: Walk, request: Request
) -> tuple[tuple[int, int, int], tuple[Note, ...]]:
    """What is asked for, or what suits the images; leaves out those that are broken."""
    sides = check_headers(root, walk)
    n_checked = len(sides) + len(walk.unreadable)
    share = request.max_bad_fraction
    check_unreadable(repr(str(root)), walk.unreadable, n_checked, share, at_least=0)
    size, notes = choose_size([*sides.values()], request)
    return (request.channels or 3, size, size), notes


def mark_copy(walk: Walk) -> str:
    """A mark of names, sizes and times: of the files as they are now."""
    mark = hashlib.blake2b(digest_size=16)
    for path, size in walk.sizes.items():
        mark.update(os.fsencode(f"{path}\0{size}\0{walk.times[path]}\n"))
    return mark.hexdigest()


def mark_files(sizes: dict[str, int], base: str) -> Mark:
    """A short mark of names below a base and sizes; any spelling of an accent will do.

    >>> str(mark_files({"a.png": 9}, "")) == str(mark_files({"box/a.png": 9}, "box/"))
    True
    """
    mark = Mark()
    for path, size in sizes.items():
        mark.add(os.fsencode(compose(path[len(base) :])), f" {size}\n")
    return mark


def walk_folder(
    root: Path,
    suffixes: Container[str] = SUFFIXES,
    what: str = "images",
    formats: str = "PNG, JPEG, WebP, BMP, GIF or TIFF",
) -> Walk:
    """Every file below a folder in the order of their paths; loops of links end.

    A folder without any file of these endings is an error.
    """
    walk, seen = Walk(), set()

    def entries(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        try:
            children = sorted(os.scandir(folder), key=lambda e: compose(e.name))
        except OSError as error:
            walk.unreadable[prefix or str(root)] = error.strerror or "closed"
            return
        for entry in children:
            if entry.name.startswith(".") or entry.name in ("__MACOSX", "Thumbs.db"):
                continue
            if entry.is_dir():
                yield from entries(Path(entry.path), f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry

    for path, entry in entries(root, ""):
        _, dot, ending = entry.name.rpartition(".")
        suffix = f".{ending}".lower() if dot else ""
        if path == LABEL_FILE and is_label_file(root / path):
            continue
        if suffix not in suffixes or (suffix in HEIC and not can_read_heic()):
            walk.others[suffix] += 1
        elif not entry.is_file():
            walk.unreadable[path] = "a broken link"
        elif not (status := entry.stat()).st_size:
            walk.unreadable[path] = "an empty file"
        else:
            walk.files.append(path)
            walk.sizes[path] = status.st_size
            walk.times[path] = status.st_mtime_ns
    walk.files.sort(key=compose)
    if not walk.files and not walk.unreadable:
        endings = ", ".join(sorted(s for s in walk.others if s)[:5])
        only = f" (only {endings} files)" if endings else ""
        advice = f"put {formats} files into it or its subfolders"
        if not walk.others.keys().isdisjoint(AUDIO):
            advice += ", or train on recordings with --method cpc"
        if ".parquet" in walk.others:
            advice += f", or train on its tables as on a data set, hf:{root}"
        if not walk.others.keys().isdisjoint(s for s in HEIC if s in suffixes):
            advice = f"HEIC photos are read after {HEIC_ADVICE}"
        raise DataError(f"The folder {str(root)!r} holds no {what}{only}: {advice}.")
    return walk


def note_others(others: Counter[str]) -> Iterator[Note]:
    """How many files are no images, and their endings; HEIC photos by themselves.

    >>> [str(note) for note in note_others(Counter({".txt": 2}))]
    ["2 files without an image's ending left out (.txt)."]
    """
    photos = sum(others[suffix] for suffix in HEIC)
    if photos:
        text = f"{count(photos, 'HEIC photo')} left out: {HEIC_ADVICE} to read them."
        yield Note("unreadable", text)
    rest = Counter({suffix: n for suffix, n in others.items() if suffix not in HEIC})
    if n := rest.total():
        kinds = ", ".join(s or "no ending" for s, _ in rest.most_common(5))
        text = f"{count(n, 'file')} without an image's ending left out ({kinds})."
        yield Note("left out", text)


def check_headers(root: Path, walk: Walk) -> dict[str, int]:
    """Shorter sides by path; files whose header is broken move to the unreadable.

    Of more than MOST_HEADERS files an even sample is opened, which is enough to choose
    a size and to notice a broken copy; the rest is checked when it is read.
    """

    def check(path: str) -> tuple[str, int | str]:
        try:
            return path, shorter_side(root / path)
        except Exception as error:
            return path, explain_unreadable(error)

    step = -(-len(walk.files) // MOST_HEADERS) or 1
    with ThreadPoolExecutor(8) as pool:
        checked = dict(pool.map(check, walk.files[::step], chunksize=64))
    bad = {path: why for path, why in checked.items() if isinstance(why, str)}
    walk.unreadable |= bad
    walk.files = [path for path in walk.files if path not in bad]
    return {path: side for path, side in checked.items() if isinstance(side, int)}


def choose_size(sides: list[int], request: Request) -> tuple[int, tuple[Note, ...]]:
    """What is asked for, or the median shorter side, in steps of 8, from 32 to 128.

    >>> [choose_size(s, Request())[0] for s in ([28, 28], [100, 101, 99], [4000], [])]
    [32, 96, 128, 32]
    """
    if request.image_size is not None:
        return request.image_size, ()
    if not sides:
        return SMALLEST_AUTOMATIC_SIZE, ()
    middle = median_low(sides)
    size = max(middle // 8 * 8, SMALLEST_AUTOMATIC_SIZE)
    size = min(size, LARGEST_AUTOMATIC_SIZE)
    why = f"image_size={size} was chosen from the median shorter side, {middle} pixels."
    return size, (Note("size", why),)


def below(path: str, base: str) -> str:
    """The first folder of a path below a base; empty for a file that lies there."""
    first, slash, _ = path[len(base) :].partition("/")
    return first if slash else ""


def find_parts(files: list[str]) -> tuple[str, tuple[str, ...]]:
    """Where lone folders lead to, and the train and test folders if it has them."""
    base = ""
    while files and len(tops := {below(f, base) for f in files}) == 1 and tops != {""}:
        base += tops.pop() + "/"
    folders = {below(f, base).lower(): below(f, base) for f in files}
    test = [folders[t] for t in TEST_NAMES if t in folders]
    return base, (folders["train"], test[0]) if "train" in folders and test else ()


def name_part(folder: str, parts: Sequence[str]) -> str:
    """The part that a folder or shard is, where two of them are the parts.

    >>> [name_part(folder, ("Train", "val")) for folder in ("Train", "val", "more")]
    ['train', 'test', '']
    """
    return dict(zip(parts, ("train", "test"), strict=True)).get(folder, "")


def note_beside(part_of: Sequence[str], parts: Sequence[str]) -> list[Note]:
    """A word about images that are in neither of the two parts."""
    if not (n := sum(not part for part in part_of)):
        return []
    text = f"{count(n, 'image')} outside {' and '.join(parts)} left out."
    return [Note("left out", text)]


def find_classes(
    files: list[str], base: str, parts: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Class names, and the class of each file; no names when there are no classes."""
    name_of = {}
    for path in files:
        part = below(path, base)
        if part in parts:
            name_of[path] = below(path, f"{base}{part}/")
        elif not parts:
            name_of[path] = part
    names = sorted(set(name_of.values()))
    if len(names) < 2 or "" in names:
        return (), {}
    number = {name: k for k, name in enumerate(names)}
    return tuple(names), {path: number[name] for path, name in name_of.items()}
