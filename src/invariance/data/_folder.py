"""A folder of pictures, nested as people have them.

* ``train/`` beside ``test/`` (or ``val/``, ``valid/``, ``validation/``): those are the
  splits. Otherwise a tenth is held out by the hash of the path.
* A folder that holds nothing but one folder stands for that one.
* Two or more subfolders with pictures and no picture beside them are classes, each with
  all that lies below it; anything else is unlabelled. Class numbers are those of the
  whole folder, whatever the split.
"""

from pathlib import Path
from statistics import median_low

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ..errors import DataError
from ._decode import decode
from ._source import NO_LABEL, Read
from ._split import held_out
from ._unreadable import check_share
from ._walk import check_headers, left_out, walk

TEST_NAMES = ("test", "val", "valid", "validation")
LARGEST_AUTOMATIC_SIZE = 128
SMALLEST_AUTOMATIC_SIZE = 32


class Files:
    """Image files, decoded when they are read."""

    def __init__(
        self,
        root: Path,
        paths: list[str],
        labels: list[int] | None,
        class_names: tuple[str, ...],
        *,
        image_size: int,
        channels: int,
    ):
        self.root, self.shape = root, (channels, image_size, image_size)
        self.paths: tuple[str, ...] | None = tuple(paths)
        self.labels: Int[Tensor, " n"] | None = None
        if labels is not None:
            self.labels = torch.tensor(labels, dtype=torch.long)
        self.class_names = class_names
        self._paths = self.paths

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Decode file i."""
        image = decode(self.root / self._paths[i], self.shape[1], self.shape[0])
        return image, NO_LABEL if self.labels is None else int(self.labels[i])


def read_folder(
    root: Path,
    *,
    split: str,
    image_size: int | None,
    channels: int | None,
    max_bad_fraction: float,
) -> Read:
    """The images of one split; image_size None takes the median shorter side."""
    found = walk(root)
    if not found.files and not found.unreadable:
        endings = ", ".join(sorted(s for s in found.others if s)[:5])
        only = f" (only {endings} files)" if endings else ""
        raise DataError(
            f"The folder {str(root)!r} holds no images{only}: "
            "put PNG, JPEG, WebP, BMP, GIF or TIFF files into it or its subfolders."
        )
    notes = [left_out(found.others)] if found.others else []
    sides = check_headers(root, found)
    n_checked = len(sides) + len(found.unreadable)
    check_share(repr(str(root)), found.unreadable, n_checked, max_bad_fraction)
    chosen = image_size or automatic_size(list(sides.values()))
    if image_size is None and sides:
        notes.append(
            f"image_size={chosen} was chosen from the median shorter side, "
            f"{median_low(sides.values())} pixels."
        )
    base, parts = parts_of(found.files)
    class_names, label_of = classes(found.files, base, parts)
    if parts:
        wanted = {"train": parts[:1], "test": parts[1:], "all": parts}[split]
        keep = [f for f in found.files if below(f, base) in wanted]
        if n_beside := sum(below(f, base) not in parts for f in found.files):
            notes.append(f"{n_beside} images outside {' and '.join(parts)} left out.")
    else:
        rows = held_out(found.files, split, f"The folder {str(root)!r}")
        keep = [found.files[i] for i in rows]
    labels = [label_of[f] for f in keep] if class_names else None
    files = Files(
        root, keep, labels, class_names, image_size=chosen, channels=channels or 3
    )
    return Read(root.resolve().name, files, found.unreadable, tuple(notes))


def automatic_size(sides: list[int]) -> int:
    """The median shorter side, in steps of 8, between 32 and 128.

    >>> automatic_size([28, 28]), automatic_size([100, 101, 99]), automatic_size([4000])
    (32, 96, 128)
    """
    middle = median_low(sides) // 8 * 8 if sides else 0
    return min(max(middle, SMALLEST_AUTOMATIC_SIZE), LARGEST_AUTOMATIC_SIZE)


def below(path: str, base: str) -> str:
    """The first folder of a path below a base; empty for a file that lies there."""
    first, slash, _ = path[len(base) :].partition("/")
    return first if slash else ""


def parts_of(files: list[str]) -> tuple[str, tuple[str, ...]]:
    """Where lone folders lead to, and the train and test folders if it has them."""
    base = ""
    while files and len(tops := {below(f, base) for f in files}) == 1 and tops != {""}:
        base += tops.pop() + "/"
    folders = {below(f, base).lower(): below(f, base) for f in files}
    test = [folders[t] for t in TEST_NAMES if t in folders]
    return base, (folders["train"], test[0]) if "train" in folders and test else ()


def classes(
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
