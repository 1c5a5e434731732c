"""Data by name or path: which there are, and what is meant. Nothing is opened."""

import os
import re
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import Any

from ..errors import DataError, near_path, unknown

# The class of torchvision.datasets, and the settings of the train and the test part.
SETS: dict[str, tuple[str, tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]] = {
    "cifar10": ("CIFAR10", ({"train": True},), ({"train": False},)),
    "cifar100": ("CIFAR100", ({"train": True},), ({"train": False},)),
    "fashion_mnist": ("FashionMNIST", ({"train": True},), ({"train": False},)),
    "flowers102": (
        "Flowers102",
        ({"split": "train"}, {"split": "val"}),
        ({"split": "test"},),
    ),
    "imagenet": ("ImageNet", ({"split": "train"},), ({"split": "val"},)),
    "imagenet100": ("ImageNet", ({"split": "train"},), ({"split": "val"},)),
    "imagenette": (
        "Imagenette",
        ({"split": "train", "size": "320px"},),
        ({"split": "val", "size": "320px"},),
    ),
    "mnist": ("MNIST", ({"train": True},), ({"train": False},)),
    "stl10": ("STL10", ({"split": "train"},), ({"split": "test"},)),
    "stl10_unlabeled": ("STL10", ({"split": "unlabeled"},), ({"split": "test"},)),
    "sun397": ("SUN397", ({},), ({},)),
    "svhn": ("SVHN", ({"split": "train"},), ({"split": "test"},)),
    "voc2007": (
        "VOCDetection",
        ({"year": "2007", "image_set": "trainval"},),
        ({"year": "2007", "image_set": "test"},),
    ),
}
GENERATED = {
    "shapes": "images of ten shapes",
    "paraphrases": "pairs of sentences that mean the same",
    "latent_walk": "sequences of a hidden state",
    "captioned_shapes": "images with captions",
    "bonds": "graphs of four classes",
    "blocks": "the nodes of a graph of four blocks",
    "double_spiral": "points on two spirals",
    "beetles": "rows of a table, of six species",
}
"""Sets that need no file, and what is in them."""
DATA_SETS = (*GENERATED, *SETS)
OLD_NAMES = {"stl10_unlabelled": "stl10_unlabeled"}  # as in runs made before
HUB = "hf:"
"""What the name of a data set of Hugging Face begins with."""


@dataclass(frozen=True)
class HubName:
    """A data set of Hugging Face by name: which one, and what of it."""

    name: str
    config: str | None = None
    split: str | None = None

    def __str__(self) -> str:
        config = "" if self.config is None else f":{self.config}"
        split = "" if self.split is None else f"@{self.split}"
        return f"{HUB}{self.name}{config}{split}"

    @property
    def path(self) -> Path | None:
        """Where it lies, if it is a folder or a file."""
        path = Path(self.name).expanduser()
        return path if path.exists() else None


def parse_hub(data: Any) -> HubName | None:
    """What a name such as hf:nyu-mll/glue:sst2@train says; None for other data.

    >>> parse_hub("hf:nyu-mll/glue:sst2@train")
    HubName(name='nyu-mll/glue', config='sst2', split='train')
    >>> parse_hub("hf:birds"), parse_hub("birds")
    (HubName(name='birds', config=None, split=None), None)
    """
    if not isinstance(data, str) or not data.startswith(HUB):
        return None
    rest = data.removeprefix(HUB)
    if Path(rest).expanduser().exists():  # whatever signs a path is made of
        return HubName(rest)
    rest, _, split = rest.partition("@")
    name, _, config = rest.partition(":")
    return HubName(name, config or None, split or None)


def is_saved_set(path: Path) -> bool:
    """Whether a folder is one that Dataset.save_to_disk of Hugging Face wrote."""
    one = (path / "dataset_info.json").is_file() and (path / "state.json").is_file()
    return one or (path / "dataset_dict.json").is_file()


def find_set(data: Any) -> str | None:
    """What the set of this name is called today; None for other data.

    >>> find_set("stl10_unlabelled"), find_set("photos")
    ('stl10_unlabeled', None)
    """
    name = OLD_NAMES.get(data, data) if isinstance(data, str) else None
    return name if name in DATA_SETS else None


def require_data(data: Any) -> None:
    """Raise a sentence if a name or a path leads to no data; objects are data."""
    if isinstance(data, str | Path) and not data_exists(data):
        find_path(data)


def data_exists(data: str | Path) -> bool:
    """Whether it names a set, or a folder or file that exists.

    >>> data_exists("shapes"), data_exists("no such folder")
    (True, False)
    """
    if (hub := parse_hub(data)) is not None:
        return hub.path is not None or could_be_on_hub(hub.name)
    if find_set(data) or find_shards(data):
        return True
    return len(split_places(data)) == 1 and Path(data).expanduser().exists()


def could_be_on_hub(name: str) -> bool:
    """Whether a name is one that sets of the hub can have, rather than a path.

    >>> could_be_on_hub("ylecun/mnist"), could_be_on_hub("./mnist")
    (True, False)
    """
    return re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name) is not None


def find_place(data: Any) -> str | None:
    """Where a folder or file of data is, from wherever one asks; None for other data.

    >>> find_place("shapes"), find_place("no such folder")
    (None, None)
    """
    if not isinstance(data, str | Path) or find_set(str(data)) or not data_exists(data):
        return None
    if (hub := parse_hub(data)) is not None:
        whole = None if hub.path is None else str(hub.path.resolve())
        return None if whole is None else str(replace(hub, name=whole))
    return "::".join(
        str(Path(one).expanduser().resolve()) for one in split_places(data)
    )


def split_places(data: str | Path) -> list[str | Path]:
    """The places that are named: one, or several patterns of shards.

    All of them together may be longer than a path can be.

    >>> split_places("a.tar::b-*.tar"), split_places("photos")
    (['a.tar', 'b-*.tar'], ['photos'])
    """
    several = isinstance(data, str) and ".tar::" in data
    return [*str(data).split("::")] if several else [data]


def is_folder_of_files(data: str | Path) -> bool:
    """Whether it is a folder whose files are the samples, with nothing to open first.

    >>> is_folder_of_files("shapes"), is_folder_of_files("no such folder")
    (False, False)
    """
    path = Path(data).expanduser()
    if find_set(str(data)) or len(split_places(str(data))) > 1 or is_saved_set(path):
        return False
    return path.is_dir() and not find_shards(path)


def find_path(
    data: str | Path,
    suffixes: tuple[str, ...] = (".npy", ".npz", ".tar"),
    folder: str = "a folder of images",
) -> Path:
    """The folder or file that is meant, or an error that says what is missing."""
    if (hub := parse_hub(data)) is not None:
        raise DataError(
            f"There is no folder or file {hub.name!r}, and the hub has no set of "
            f"that name: name one as hf:OWNER/NAME.{near_path(Path(hub.name))}"
        )
    if not str(data).strip():  # an unset variable of the shell
        raise DataError("No data given: the path is empty. '.' is this folder.")
    path = Path(data).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        if path.suffix.lower() in suffixes:
            return path
        *most, last = suffixes
        raise DataError(
            f"{str(data)!r} is a file: expected {folder}, or an {', '.join(most)} "
            f"or {last} file."
        )
    text = str(data)
    if isinstance(data, str) and not {"/", "\\"} & {*text} and not path.suffix:
        hint = unknown("data set", text, DATA_SETS)
        either = f"There is no folder {text!r} either.{near_path(path)}"
        raise DataError(f"{hint} {either}")
    raise DataError(
        f"There is no folder or file {text!r}: check the path.{near_path(path)}"
    )


def find_shards(data: Any) -> list[Path]:
    """The .tar files that are meant: one, all of a folder, or those of a pattern.

    Several patterns are a list, or have :: between them. Nothing where the data are
    something else, such as a folder with images beside an archive of them.
    """
    if isinstance(data, list | tuple):
        named = bool(data) and all(is_shard(one) for one in data)
        return [path for one in data for path in find_shards(one)] if named else []
    if not isinstance(data, str | Path):
        return []
    if len(several := split_places(data)) > 1:
        return find_shards(several)
    path = Path(data).expanduser()
    if path.is_dir():
        shards = sorted(path.glob("*.tar")) or sorted(path.glob("*/*.tar"))
        return [] if shards and holds_images(path) else shards
    if not is_shard(path):
        return []
    if path.is_file():
        return [path]
    parts = expand_braces(str(path))  # such as shards-{000..012}.tar
    return [Path(name) for part in parts for name in sorted(glob(part))]  # noqa: PTH207


def is_shard(data: Any) -> bool:
    """Whether its name is that of a shard; compressed ones are refused later."""
    endings = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
    return isinstance(data, str | Path) and str(data).lower().endswith(endings)


def holds_images(folder: Path) -> bool:
    """Whether any image lies in a folder or below it."""
    from ._folder import SUFFIXES  # which needs numpy and Pillow

    files = (Path(name).suffix for _, _, names in os.walk(folder) for name in names)
    return any(suffix.lower() in SUFFIXES for suffix in files)


def name_shards(paths: list[Path]) -> str:
    """What shards are called: the one by its name, several by that of their folder.

    >>> name_shards([Path("birds.tar")])
    'birds'
    >>> name_shards([Path("birds/0.tar"), Path("birds/1.tar")])
    'birds'
    """
    if len(paths) == 1:
        return paths[0].stem
    top = os.path.commonpath([path.resolve().parent for path in paths])
    return Path(top).name


def name_data(data: Any) -> str:
    """What data are called in the name of a run."""
    if (hub := parse_hub(data)) is not None:
        return "-".join(filter(None, (Path(hub.name).stem, hub.config)))
    if shards := find_shards(data):
        return name_shards(shards)
    return Path(data).stem if isinstance(data, str) else "data"


def expand_braces(pattern: str) -> list[str]:
    """A pattern with its braces written out.

    >>> expand_braces("s-{08..10}.tar")
    ['s-08.tar', 's-09.tar', 's-10.tar']
    >>> expand_braces("{a,b}-{1..2}")
    ['a-1', 'a-2', 'b-1', 'b-2']
    """
    before, brace, rest = pattern.partition("{")
    inner, closed, after = rest.partition("}")
    if not brace or not closed:
        return [pattern]
    first, dots, last = inner.partition("..")
    if dots and first.isdigit() and last.isdigit():
        numbers = range(int(first), int(last) + 1)
        parts = [f"{number:0{len(first)}d}" for number in numbers]
    else:
        parts = inner.split(",")
    ends = expand_braces(after)
    return [before + part + end for part in parts for end in ends]
