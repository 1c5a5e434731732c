"""torchvision's sets by name, with their own train and test parts.

Files are looked for in ``data_root`` (else $INVARIANCE_DATA, else ~/.cache/invariance)
and downloaded when they are not there, except ImageNet's, which its owners hand out.
``stl10`` trains on the 5,000 labeled images, ``stl10_unlabeled`` on the 100,000 without
labels; both test on the same 8,000.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ._arrays import Pixels
from ._folder import LARGEST_AUTOMATIC_SIZE, Files
from ._source import Items, Read
from ._subset import join

SETS: dict[str, Callable[[Any, Path, bool, bool], Any]] = {
    "cifar10": lambda tv, root, test, get: tv.CIFAR10(root, not test, download=get),
    "cifar100": lambda tv, root, test, get: tv.CIFAR100(root, not test, download=get),
    "fashion_mnist": lambda tv, root, test, get: tv.FashionMNIST(
        root, not test, download=get
    ),
    "imagenet": lambda tv, root, test, get: tv.ImageNet(
        root / "imagenet", "val" if test else "train"
    ),
    "imagenette": lambda tv, root, test, get: tv.Imagenette(
        root, "val" if test else "train", "320px", download=get
    ),
    "mnist": lambda tv, root, test, get: tv.MNIST(root, not test, download=get),
    "stl10": lambda tv, root, test, get: tv.STL10(
        root, "test" if test else "train", download=get
    ),
    "stl10_unlabeled": lambda tv, root, test, get: tv.STL10(
        root, "test" if test else "unlabeled", download=get
    ),
    "svhn": lambda tv, root, test, get: tv.SVHN(
        root / "svhn", "test" if test else "train", download=get
    ),
}


def read_torchvision(
    name: str,
    *,
    split: str,
    image_size: int | None,
    channels: int | None,
    data_root: str | Path | None,
) -> Read:
    """One part of a set, or both for split 'all', downloaded first where need be."""
    root = Path(data_root or os.environ.get("INVARIANCE_DATA", "~/.cache/invariance"))
    tests = {"train": [False], "test": [True], "all": [False, True]}[split]
    parts = [open_part(name, root.expanduser(), test) for test in tests]
    return Read(name, join([to_items(part, image_size, channels) for part in parts]))


def open_part(name: str, root: Path, test: bool) -> Any:
    """The set as torchvision reads it; downloads only what is missing."""
    import torchvision.datasets

    make = SETS[name]
    try:
        return make(torchvision.datasets, root, test, False)
    except (RuntimeError, OSError):
        pass
    try:
        root.mkdir(parents=True, exist_ok=True)
        return make(torchvision.datasets, root, test, True)
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        if name == "imagenet":
            raise DataError(
                "imagenet cannot be downloaded: place ILSVRC2012_devkit_t12.tar.gz, "
                "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar in "
                f"{str(root / 'imagenet')!r} by hand ({why})."
            ) from error
        raise DataError(
            f"{name} is not in {str(root)!r} and could not be downloaded ({why}): "
            "connect to the network once, copy the files there, or set data_root or "
            "INVARIANCE_DATA to where they are."
        ) from error


def to_items(dataset: Any, image_size: int | None, channels: int | None) -> Items:
    """The pixels torchvision has loaded, or the files it has listed."""
    names = tuple(first_name(k) for k in getattr(dataset, "classes", ()))
    files = getattr(dataset, "samples", getattr(dataset, "_samples", None))
    if files is not None:
        root = Path(dataset.root)
        return Files(
            root,
            [Path(path).relative_to(root).as_posix() for path, _ in files],
            [label for _, label in files],
            names,
            image_size=image_size or LARGEST_AUTOMATIC_SIZE,
            channels=channels or 3,
        )
    labels = np.asarray(getattr(dataset, "targets", getattr(dataset, "labels", None)))
    known = bool((labels >= 0).all())  # STL-10 marks the unlabeled part with -1
    return Pixels(
        dataset.data,
        labels if known else None,
        image_size=image_size,
        channels=channels,
        class_names=names if known else (),
        name=type(dataset).__name__,
    )


def first_name(name: str | tuple[str, ...]) -> str:
    """ImageNet's classes have several names each; the first will do."""
    return name if isinstance(name, str) else name[0]
