"""torchvision's sets by name, with their own train and test parts.

Files are looked for in ``data_root`` (else $INVARIANCE_DATA, else ~/.cache/invariance)
and downloaded when they are not there, except ImageNet's, which its owners hand out.

| name | what is special |
|---|---|
| ``stl10`` | trains on the 5,000 labeled images |
| ``stl10_unlabeled`` | trains on the 100,000 without labels, tests as ``stl10`` |
| ``flowers102`` | trains on the train and validation parts, as transfer is reported |
| ``sun397`` | the first official partition where ``SUN397`` holds its lists \
(Training_01.txt and Testing_01.txt); otherwise a tenth is held out |
| ``voc2007`` | several classes per image: ``tags``, from the detection annotations |
| ``imagenet100`` | the classes of ``imagenet`` that imagenet100.txt lists: those of \
Tian et al. 2020 (CMC) |
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from jaxtyping import Int8
from torch import Tensor

from ..errors import DataError
from ._arrays import Pixels
from ._file_items import Files
from ._folder import LARGEST_AUTOMATIC_SIZE, ImageFiles
from ._load_request import Note, Origin, Request, find_data_root
from ._names import SETS
from ._sources import Items, Read
from ._split import split_names
from ._subset import Subset, join

# The others make a folder of their own.
OWN_FOLDER = {"imagenet": "imagenet", "imagenet100": "imagenet", "svhn": "svhn"}
BY_HAND = ("imagenet", "imagenet100")
VOC_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair"),
    *("cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant"),
    *("sheep", "sofa", "train", "tvmonitor"),
)


def read_torchvision(name: str, request: Request) -> Read:
    """One part of a set, or both for split 'all', downloaded first where need be."""
    place = find_data_root(request.data_root)
    _, train, test = SETS[name]
    if name == "sun397":
        return read_sun397(open_part(name, place, {}), request)
    parts = {"train": train, "test": test, "all": (*train, *test)}[request.split]
    sets = [to_items(name, open_part(name, place, part), request) for part in parts]
    return Read(name, join(sets))


def open_part(name: str, root: Path, part: dict[str, Any]) -> Any:
    """The set as torchvision reads it; downloads only what is missing."""
    import torchvision.datasets

    make = getattr(torchvision.datasets, SETS[name][0])
    place = root / OWN_FOLDER[name] if name in OWN_FOLDER else root
    try:
        return make(place, **part)
    except (RuntimeError, OSError):
        pass
    try:
        root.mkdir(parents=True, exist_ok=True)
        download = {} if name in BY_HAND else {"download": True}
        return make(place, **part, **download)
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        if name in BY_HAND:
            raise DataError(
                f"{name} cannot be downloaded: place ILSVRC2012_devkit_t12.tar.gz, "
                "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar in "
                f"{str(root / 'imagenet')!r} by hand ({why})."
            ) from error
        raise DataError(
            f"{name} is not in {str(root)!r} and could not be downloaded ({why}): "
            "connect to the network once, copy the files there, or set data_root or "
            "INVARIANCE_DATA to where they are."
        ) from error


def to_items(name: str, dataset: Any, request: Request) -> Items:
    """The pixels torchvision has loaded, or the files it has listed."""
    names = tuple(first_name(k) for k in getattr(dataset, "classes", ()))
    if name == "voc2007":
        items = to_files(dataset.images, None, VOC_CLASSES, dataset.root, request)
        items.tags = read_voc_tags(dataset.targets)
        return items
    if name == "imagenet100":
        return choose_classes(dataset, names, request)
    files = getattr(dataset, "samples", getattr(dataset, "_samples", None))
    if files is not None:
        paths, numbers = zip(*files, strict=True)
        return to_files(paths, list(numbers), names, dataset.root, request)
    if hasattr(dataset, "_image_files"):
        files, numbers = dataset._image_files, dataset._labels
        return to_files(files, list(numbers), names, dataset.root, request)
    labels = np.asarray(getattr(dataset, "targets", getattr(dataset, "labels", None)))
    known = bool((labels >= 0).all())  # STL-10 marks the unlabeled part with -1
    given = labels if known else None
    pixels = Pixels(dataset.data, given, type(dataset).__name__, request)
    pixels.class_names = names if known and names else pixels.class_names
    return pixels


def to_files(
    paths: Iterable[str | Path],
    labels: list[int] | None,
    names: tuple[str, ...],
    root: str | Path,
    request: Request,
) -> Files:
    """Files that torchvision has listed, as a folder's."""
    size = request.image_size or LARGEST_AUTOMATIC_SIZE
    below = tuple(Path(path).relative_to(root).as_posix() for path in paths)
    shape = (request.channels or 3, size, size)
    return Files(ImageFiles(Path(root), below, shape, labels, names))


def choose_classes(dataset: Any, names: tuple[str, ...], request: Request) -> Items:
    """The images of ImageNet whose class imagenet100.txt lists, numbered so."""
    wanted = (Path(__file__).parent / "imagenet100.txt").read_text().split()
    missing = [wnid for wnid in wanted if wnid not in dataset.wnid_to_idx]
    if missing:
        raise DataError(
            f"{len(missing)} of the 100 classes of imagenet100 are not in "
            f"{str(dataset.root)!r}, the first is {missing[0]}: unpack all of ImageNet "
            "there."
        )
    number = {dataset.wnid_to_idx[wnid]: k for k, wnid in enumerate(wanted)}
    kept = [(path, number[k]) for path, k in dataset.samples if k in number]
    paths, numbers = zip(*kept, strict=True)
    chosen = tuple(names[k] for k in number)
    return to_files(paths, list(numbers), chosen, dataset.root, request)


def read_sun397(dataset: Any, request: Request) -> Read:
    """By the first official partition where its lists are there, else a tenth of it."""
    order = sorted(range(len(dataset)), key=lambda i: dataset._image_files[i])
    files = [dataset._image_files[i] for i in order]  # torchvision lists in any order
    labels = [dataset._labels[i] for i in order]
    items = to_files(files, labels, tuple(dataset.classes), dataset.root, request)
    folder = Path(dataset.root) / "SUN397"
    lists = {"train": folder / "Training_01.txt", "test": folder / "Testing_01.txt"}
    if request.split == "all":
        return Read("sun397", items)
    if all(path.exists() for path in lists.values()):
        # /a/abbey/sun_x.jpg in the list is SUN397/a/abbey/sun_x.jpg here
        wanted = lists[request.split].read_text().split()
        place = {path: i for i, path in enumerate(items.paths or ())}
        rows = [place[name] for line in wanted if (name := f"SUN397{line}") in place]
        if len(rows) < len(wanted):
            raise DataError(
                f"{len(wanted) - len(rows)} of the {len(wanted)} images that "
                f"{lists[request.split].name} lists are not in {str(folder)!r}: "
                "unpack all of SUN397 there."
            )
        return Read("sun397", Subset(items, rows))
    names = list(items.paths or ())
    rows, n_held_out = split_names(names, request, "sun397", labeled=True)
    origin = Origin(n_held_out=n_held_out, own_test=False)
    if not n_held_out:
        return Read("sun397", Subset(items, rows), origin=origin)
    text = (
        "A tenth of sun397 is held out: for the split that papers use, place "
        "Training_01.txt and Testing_01.txt of its official partitions in "
        f"{str(folder)!r}."
    )
    notes = (Note("left out", text),)
    return Read("sun397", Subset(items, rows), notes=notes, origin=origin)


def read_voc_tags(annotations: Iterable[str]) -> Int8[Tensor, "n 20"]:
    """What each image shows: 1; nothing of a class: 0; only difficult ones of it: -1.

    VOC does not count an object that is marked as difficult, neither way.
    """
    rows = []
    for path in annotations:
        row = dict.fromkeys(VOC_CLASSES, 0)
        try:
            things = list(ElementTree.parse(path).getroot().iter("object"))
        except (OSError, ElementTree.ParseError) as error:
            raise DataError(
                f"The annotation {path!r} of voc2007 cannot be read ({error}): unpack "
                "the archive again."
            ) from error
        for thing in things:
            name = thing.findtext("name", "").strip()
            easy = thing.findtext("difficult", "0").strip() != "1"
            if name in row and row[name] < 1:
                row[name] = 1 if easy else -1
        rows.append(list(row.values()))
    return torch.tensor(rows, dtype=torch.int8)


def first_name(name: str | tuple[str, ...]) -> str:
    """ImageNet's classes have several names each; the first will do."""
    return name if isinstance(name, str) else name[0]
