"""One door for every kind of data."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, SettingError, near_path, unknown
from ._array_files import read_array_file
from ._arrays import read_arrays
from ._dataset import read_dataset
from ._folder import read_folder
from ._memory import choose_storage
from ._resident import read_all
from ._rows import Chosen, spread
from ._shapes import read_shapes
from ._source import ImageSource, Read
from ._split import check_split
from ._streamed import StreamedImages
from ._torchvision import read_torchvision

DATA_SETS: dict[str, Callable[..., Read]] = {
    "shapes": read_shapes,
    "cifar10": partial(read_torchvision, "cifar10"),
    "cifar100": partial(read_torchvision, "cifar100"),
    "stl10": partial(read_torchvision, "stl10"),
    "stl10_unlabelled": partial(read_torchvision, "stl10_unlabelled"),
    "svhn": partial(read_torchvision, "svhn"),
    "mnist": partial(read_torchvision, "mnist"),
    "fashion_mnist": partial(read_torchvision, "fashion_mnist"),
    "imagenette": partial(read_torchvision, "imagenette"),
    "imagenet": partial(read_torchvision, "imagenet"),
}


def load(
    data: Any,
    *,
    split: str = "train",
    image_size: int | None = None,
    channels: int | None = None,
    n: int | None = None,
    storage: str = "auto",
    root: str | Path | None = None,
    workers: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    max_bad_fraction: float = 0.2,
) -> ImageSource:
    """Images by a name in ``DATA_SETS``, a path, or an object.

    >>> source = load("shapes", n=100)
    >>> len(source), source.shape, source.class_names[:3]
    (100, (3, 32, 32), ('circle', 'square', 'triangle'))
    >>> load(np.zeros((50, 28, 28), np.uint8), split="all").shape
    (1, 28, 28)

    Args:
        data: a name ("shapes", "cifar10", ...; "./shapes" is a folder of that name), a
            path of a folder, .npy or .npz file, an array or tensor of images, a pair
            (images, labels), or a torch Dataset.
        split: "train", "test" or "all". Data without a test part of their own hold out
            a tenth by the hash of each image's path or number.
        image_size: side of the square images handed out. None keeps the size of sets
            that have one, and takes the median shorter side of a folder (32 to 128).
        channels: 1 or 3. None: 3 for folders, otherwise as the data are.
        n: how many images: generated ones (6,000 to train, 1,000 to test unless said),
            at most so many of others, evenly spread.
        storage: "resident" (one tensor on ``device``), "streamed" (decoded by workers
            as training goes) or "auto", which is resident when the images fit.
        root: where torchvision's sets are kept; None is $INVARIANCE_DATA or
            ~/.cache/invariance.
        workers: decoding processes of streamed images; 0 decodes in this one.
        seed: of generated data.
        device: where resident images are kept.
        max_bad_fraction: more unreadable images than this share are an error.
    """
    check_split(split)
    if channels not in (None, 1, 3):
        raise SettingError(f"channels is 1 (grey) or 3 (colour): got {channels}.")
    for what, value, least in (
        ("image_size", image_size, 1),
        ("n", n, 1),
        ("workers", workers, 0),
    ):
        if value is not None and value < least:
            raise SettingError(f"{what} is {least} or more: got {value}.")
    found = read(
        data,
        split=split,
        image_size=image_size,
        channels=channels,
        n=n,
        root=root,
        seed=seed,
        max_bad_fraction=max_bad_fraction,
    )
    items = found.items
    if n is not None and n < len(items):
        items = Chosen(items, spread(len(items), n))
    if not len(items):
        raise DataError(f"{found.name} has no images in its {split} part.")
    place = torch.device(device)
    n_bytes = len(items) * int(np.prod(items.shape))
    resident, why = choose_storage(storage, n_bytes, place)
    told: dict[str, Any] = {
        "name": found.name,
        "unreadable": found.unreadable,
        "max_bad_fraction": max_bad_fraction,
        "notes": (*found.notes, why),
    }
    source: ImageSource
    if resident:
        source = read_all(items, device=place, threads=found.threads, **told)
    else:
        source = StreamedImages(items, workers=workers, **told)
    source.reader_notes = found.notes
    return source


def read(
    data: Any,
    *,
    split: str,
    n: int | None,
    root: str | Path | None,
    seed: int,
    max_bad_fraction: float,
    **sizes: int | None,
) -> Read:
    """Find out what kind of data this is, and read it."""
    if isinstance(data, str) and data == "shapes":
        return DATA_SETS[data](n=n, split=split, seed=seed, **sizes)
    if isinstance(data, str) and data in DATA_SETS:
        return DATA_SETS[data](split=split, root=root, **sizes)
    if isinstance(data, (str, Path)):
        path = existing(data)
        if path.is_dir():
            return read_folder(
                path, split=split, max_bad_fraction=max_bad_fraction, **sizes
            )
        return read_array_file(path, split=split, **sizes)
    images, labels = (
        data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    )
    if isinstance(images, (Tensor, np.ndarray)):
        return read_arrays(images, labels, name="the array", split=split, **sizes)
    if hasattr(data, "__getitem__") or hasattr(data, "__iter__"):
        return read_dataset(data, split=split, **sizes)
    raise DataError(
        f"data is a {type(data).__name__}: expected a data set's name, a path, an "
        "array of images, (images, labels) or a torch Dataset."
    )


def is_there(data: str | Path) -> bool:
    """Whether it names a set, or a folder or file that exists.

    >>> is_there("shapes"), is_there("no such folder")
    (True, False)
    """
    named = isinstance(data, str) and data in DATA_SETS
    return named or Path(data).expanduser().exists()


def existing(data: str | Path) -> Path:
    """The folder or numpy file meant, or a sentence that says what is not there."""
    if not str(data).strip():  # an unset variable of the shell
        raise DataError("No data are named: got an empty path. '.' is this folder.")
    path = Path(data).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        if path.suffix.lower() in (".npy", ".npz"):
            return path
        raise DataError(
            f"{str(data)!r} is a file: expected a folder of images, or an .npy "
            "or .npz file."
        )
    text = str(data)
    if (
        isinstance(data, str)
        and "/" not in text
        and "\\" not in text
        and not path.suffix
    ):
        hint = unknown("data set", text, DATA_SETS)
        either = f"There is no folder {text!r} either.{near_path(path)}"
        raise DataError(f"{hint} {either}")
    raise DataError(
        f"There is no folder or file {text!r}: check the path.{near_path(path)}"
    )
