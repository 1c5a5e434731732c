"""The files of a folder as items to train on, and ``pack``, which copies them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from ..errors import DataError, SettingError
from ..progress import Progress, tell
from ._folder import ImageFiles, Walk, choose_shape, find_images, mark_copy, walk_folder
from ._head_start import take_images
from ._kind import Image
from ._load_request import Request, check_shape, check_unreadable
from ._one_pass import Batch, share_out
from ._pack import Packed, find_pack, hold_pack, write_pack
from ._sources import Items, Read


class Files(Items):
    """Image files, decoded when they are read, unless somebody has read them ahead."""

    def __init__(
        self,
        files: ImageFiles,
        ready: tuple[UInt8[np.ndarray, "n c h w"], dict[int, str]] | None = None,
    ):
        self.files, self.kind, self.paths = files, Image(files.shape), files.paths
        self.class_names, self.pack = files.class_names, files.pack
        if files.labels is not None:
            self.labels = torch.tensor(files.labels, dtype=torch.long)
        if files.tags is not None:
            self.tags = torch.tensor(files.tags, dtype=torch.int8)
        if ready is not None:
            self.ready = torch.from_numpy(ready[0]), ready[1]

    def __len__(self) -> int:
        return len(self.files.paths)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Image i and its label."""
        if self.ready is not None and i not in self.ready[1]:
            return self.ready[0][i], self.label(i)
        return torch.from_numpy(self.files.read(i)), self.label(i)


def read_folder(root: Path, request: Request) -> Read:
    """The images of one part; image_size None takes the median shorter side."""
    files, ready = take_images(root, request) or (find_images(root, request), None)
    items, name = Files(files, ready), root.resolve().name
    return Read(name, items, files.unreadable, files.notes, origin=files.origin)


def pack(
    folder: str | Path,
    *,
    image_size: int | None = None,
    channels: int | None = None,
    max_bad_fraction: float | int = 0.2,
    quiet: bool = True,
) -> Packed:
    """Keep a decoded copy of a folder, which ``load`` uses until the folder changes.

    Args:
        folder: Of images.
        image_size: As of ``load``; other sizes are other copies.
        channels: 1 or 3; None is 3.
        max_bad_fraction: More unreadable images than this share are an error.
        quiet: Show no progress.
    """
    check_shape(image_size, channels)
    if not 0 <= max_bad_fraction <= 1:
        raise SettingError(
            "max_bad_fraction is a share of the images, 0 to 1: got "
            f"{max_bad_fraction}."
        )
    root = Path(folder).expanduser()
    if not str(folder) or not root.is_dir():
        raise DataError(f"There is no folder {str(folder)!r}: pack a folder of images.")
    walk = walk_folder(root)
    request = Request(
        image_size=image_size,
        channels=channels,
        max_bad_fraction=float(max_bad_fraction),
    )
    shape, _ = choose_shape(root, walk, request)
    with hold_pack(root, shape, partial(tell, quiet=quiet)):
        return write_or_find(root, walk, shape, request.max_bad_fraction, quiet)


def write_or_find(
    root: Path,
    walk: Walk,
    shape: tuple[int, int, int],
    max_bad_fraction: float,
    quiet: bool,
) -> Packed:
    """The packed copy that exists, if whole and of these files; or a new one."""
    names, mark = list(walk.sizes), mark_copy(walk)
    unreadable = walk.unreadable

    def check() -> None:
        check_unreadable(repr(str(root)), unreadable, len(names), max_bad_fraction)

    def describe(path: Path, *, new: bool) -> Packed:
        n = sum(name not in unreadable for name in names)
        return Packed(path, n, shape, path.stat().st_size, unreadable, new)

    pack, _ = find_pack(root, mark, len(names), shape)
    if pack is not None and pack.is_intact():
        known = {names[i]: "so it was when packed" for i in sorted(pack.unreadable)}
        unreadable |= known | unreadable
        check()
        return describe(pack.path, new=False)
    with Progress(len(names), unit="images", quiet=quiet) as progress:

        def batches() -> Iterator[Batch]:
            for batch in share_out(Files(ImageFiles(root, tuple(names), shape))):
                yield batch
                progress.advance(batch.stop - batch.start)
                bad = batch.unreadable.items()
                unreadable.update({names[i]: why for i, why in bad})
            check()

        path = write_pack(root, mark, len(names), shape, batches())
    return describe(path, new=True)
