"""Arrays on disk: an ``.npy`` file of images, or an ``.npz`` archive with labels.

An archive may name its arrays as Keras does (x_train, y_train, x_test, ...), as
MedMNIST does (train_images, train_labels, ...), or simply images and labels. An
``.npy`` file is mapped, not loaded, so it may be larger than the memory.
"""

from pathlib import Path

import numpy as np

from ..errors import DataError
from ._arrays import Pixels, read_arrays
from ._rows import Joined
from ._source import Items, Read

IMAGE_KEYS = ("images", "x", "data", "arr_0")
LABEL_KEYS = ("labels", "y", "targets", "arr_1")
TRAIN_KEYS = (("x_train", "y_train"), ("train_images", "train_labels"))
TEST_KEYS = (("x_test", "y_test"), ("test_images", "test_labels"))
PARTS = {"train": TRAIN_KEYS, "test": TEST_KEYS}


def read_array_file(
    path: Path, *, split: str, image_size: int | None, channels: int | None
) -> Read:
    """An .npy file of images, or an .npz archive of images and labels."""
    name = path.name
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
        archive = {"images": stored} if isinstance(stored, np.ndarray) else dict(stored)
    except Exception as error:
        why = str(error)
        if "allow_pickle" in why:  # what numpy takes text and anything else for
            why = "numpy did not write it, or it holds objects"
        raise DataError(
            f"{str(path)!r} cannot be read as a numpy file ({why}): "
            "save plain numbers with numpy.save or numpy.savez."
        ) from error
    keys = {part: first(archive, pairs) for part, pairs in PARTS.items()}
    if keys["train"] and keys["test"]:
        lots: list[Items] = [
            Pixels(
                archive[k[0]],
                archive.get(k[1]),
                image_size=image_size,
                channels=channels,
                name=f"{k[0]} of {name}",
            )
            for part, k in keys.items()
            if k and split in (part, "all")
        ]
        return Read(name, lots[0] if len(lots) == 1 else Joined(lots))
    image_key = next((k for k in IMAGE_KEYS if k in archive), None)
    if image_key is None:
        raise DataError(
            f"{str(path)!r} holds {', '.join(archive) or 'nothing'}: expected an "
            "array called 'images' (and 'labels', if there are any)."
        )
    return read_arrays(
        archive[image_key],
        next((archive[k] for k in LABEL_KEYS if k in archive), None),
        name=name,
        split=split,
        image_size=image_size,
        channels=channels,
    )


def first(
    archive: dict[str, np.ndarray], pairs: tuple[tuple[str, str], ...]
) -> tuple[str, str] | None:
    """The first pair of names whose images are in an archive."""
    return next((pair for pair in pairs if pair[0] in archive), None)
