"""torchvision's sets by name, with their own train and test parts.

Files are looked for in ``data_root`` (else $INVARIANCE_DATA, else ~/.cache/invariance)
and downloaded when they are not there, except ImageNet's, which its owners hand out.
``stl10`` trains on the 5,000 labeled images, ``stl10_unlabeled`` on the 100,000 without
labels; both test on the same 8,000.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ._arrays import Pixels
from ._folder import LARGEST_AUTOMATIC_SIZE, Files
from ._sources import Items, Read, Request
from ._subset import join

# The class of torchvision.datasets, and what it calls the train and the test part.
SETS: dict[str, tuple[str, Any, Any]] = {
    "cifar10": ("CIFAR10", True, False),
    "cifar100": ("CIFAR100", True, False),
    "fashion_mnist": ("FashionMNIST", True, False),
    "imagenet": ("ImageNet", "train", "val"),
    "imagenette": ("Imagenette", "train", "val"),
    "mnist": ("MNIST", True, False),
    "stl10": ("STL10", "train", "test"),
    "stl10_unlabeled": ("STL10", "unlabeled", "test"),
    "svhn": ("SVHN", "train", "test"),
}
OWN_FOLDER = ("imagenet", "svhn")  # the others make a folder of their own


def read_torchvision(name: str, request: Request) -> Read:
    """One part of a set, or both for split 'all', downloaded first where need be."""
    root = request.data_root or os.environ.get("INVARIANCE_DATA", "~/.cache/invariance")
    _, train, test = SETS[name]
    parts = {"train": [train], "test": [test], "all": [train, test]}[request.split]
    sets = [open_part(name, Path(root).expanduser(), part) for part in parts]
    return Read(name, join([to_items(dataset, request) for dataset in sets]))


def open_part(name: str, root: Path, part: Any) -> Any:
    """The set as torchvision reads it; downloads only what is missing."""
    import torchvision.datasets

    make = getattr(torchvision.datasets, SETS[name][0])
    place = root / name if name in OWN_FOLDER else root
    settings = {"size": "320px"} if name == "imagenette" else {}
    try:
        return make(place, part, **settings)
    except (RuntimeError, OSError):
        pass
    try:
        root.mkdir(parents=True, exist_ok=True)
        download = {} if name == "imagenet" else {"download": True}
        return make(place, part, **settings, **download)
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


def to_items(dataset: Any, request: Request) -> Items:
    """The pixels torchvision has loaded, or the files it has listed."""
    names = tuple(first_name(k) for k in getattr(dataset, "classes", ()))
    files = getattr(dataset, "samples", getattr(dataset, "_samples", None))
    if files is not None:
        root, size = Path(dataset.root), request.image_size or LARGEST_AUTOMATIC_SIZE
        paths = [Path(path).relative_to(root).as_posix() for path, _ in files]
        numbers = [label for _, label in files]
        return Files(root, paths, numbers, names, (request.channels or 3, size, size))
    labels = np.asarray(getattr(dataset, "targets", getattr(dataset, "labels", None)))
    known = bool((labels >= 0).all())  # STL-10 marks the unlabeled part with -1
    given = labels if known else None
    items = Pixels(dataset.data, given, type(dataset).__name__, request)
    items.class_names = names if known and names else items.class_names
    return items


def first_name(name: str | tuple[str, ...]) -> str:
    """ImageNet's classes have several names each; the first will do."""
    return name if isinstance(name, str) else name[0]
