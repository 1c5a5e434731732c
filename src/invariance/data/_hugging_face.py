"""Data sets of Hugging Face: the library ``datasets`` opens them, from hub or disk.

    hf:ylecun/mnist                 a set of the hub, downloaded once
    hf:nyu-mll/glue:sst2            one of its configurations
    hf:stanfordnlp/imdb@train       one split alone, also as 'train[:10%]'
    hf:data/birds                   a folder or file of parquet, csv, json or images
    data/birds                      a folder that save_to_disk wrote

The split called train is learned from, and the one called test is scored by (else
validation, or the like), whose labels are known. Without such a split, or with one
chosen by its name, a tenth is held out as of other data.
"""

import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, suggest
from ..words import join_words
from ._load_request import Note
from ._names import (
    HubName,
    is_saved_set,
    parse_hub,
    require_data,
    split_places,
)

TESTS = ("test", "validation", "valid", "val", "dev", "eval")
BUILDERS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".arrow": "arrow",
}
LOOKED_AT = 256  # rows that tell whether a split has labels


@dataclass(frozen=True)
class HubSet:
    """The splits of a data set that are used."""

    title: str
    train: Any
    test: Any = None
    """None where a tenth of the other is to be held out."""
    names: tuple[str, ...] = ("train", "test")
    """What the splits are called."""
    notes: tuple[Note, ...] = ()

    @property
    def splits(self) -> list[tuple[str, Any]]:
        """Those there are, with their names."""
        both = [*zip(self.names, (self.train, self.test), strict=False)]
        return [(name, rows) for name, rows in both if rows is not None]

    @property
    def features(self) -> Mapping[str, Any]:
        """What each column holds."""
        features: Mapping[str, Any] = self.train.features
        return features


def is_hub(data: Any) -> bool:
    """Whether data are a data set of Hugging Face: its name, its folder or itself."""
    if isinstance(data, str | Path):
        if len(split_places(data)) > 1:
            return False
        return parse_hub(data) is not None or is_saved_set(Path(data).expanduser())
    library = sys.modules.get("datasets")
    kinds = ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")
    types = [getattr(library, kind, None) for kind in kinds]
    return any(isinstance(kind, type) and isinstance(data, kind) for kind in types)


def open_hub(data: Any) -> HubSet:
    """The splits to learn from and to score by."""
    if isinstance(data, str | Path):
        require_data(data)
        place = Path(data).expanduser()
        wanted = parse_hub(data) or HubName(str(place))
        path = wanted.path
        title = Path(wanted.name).name if path is None else path.resolve().name
        loaded = load_hub(wanted)
    else:
        title = find_title(data)
        wanted, loaded = HubName(title), data
    streamed = import_library(title).IterableDataset
    splits = dict(loaded) if isinstance(loaded, Mapping) else {"": loaded}
    if any(isinstance(split, streamed) for split in splits.values()):
        raise DataError(
            f"{title} is streamed, but samples are read by number: load it without "
            "streaming=True."
        )
    empty = [name for name, split in splits.items() if not len(split)]
    splits = {name: split for name, split in splits.items() if name not in empty}
    if not splits:
        raise DataError(f"{title} has no rows: give a data set with at least two.")
    return choose_splits(title, wanted, splits)


def choose_splits(title: str, wanted: HubName, splits: dict[str, Any]) -> HubSet:
    """The split to learn from, and the one to score on if there is one."""
    if len(splits) == 1:
        ((name, only),) = splits.items()
        called = name or wanted.split or str(getattr(only, "split", None) or "rows")
        return HubSet(title, only, names=(called,))
    if "train" not in splits:
        choices = [f"hf:{wanted.name}@{name}" for name in splits]
        raise DataError(
            f"{title} has the splits {join_words([*splits])}, but none called train: "
            f"choose one, such as {choices[0]}."
        )
    labeled = {name: has_labels(split) for name, split in splits.items()}
    tests = [name for name in TESTS if name in splits]
    test = next((name for name in tests if labeled[name]), None)
    if test is None and not labeled["train"]:
        test = next(iter(tests), None)
    rest = [name for name in splits if name not in ("train", test)]
    notes: tuple[Note, ...] = ()
    if rest:
        text = (
            f"Splits left out: {', '.join(rest)} (hf:{wanted.name}@{rest[0]} is that "
            "one alone)."
        )
        notes = (Note("left out", text),)
    chosen = splits.get(test or "")
    return HubSet(title, splits["train"], chosen, ("train", test or ""), notes)


def has_labels(split: Any) -> bool:
    """Whether its classes are known; where there are none, nothing is missing.

    The test parts of many sets have -1 in place of every class, which stays secret.
    """
    library = import_library("a data set")
    for name, feature in split.features.items():
        if isinstance(feature, library.ClassLabel):
            first = split.select_columns([name])[:LOOKED_AT][name]
            return any(label is not None and label >= 0 for label in first)
    return True


def load_hub(wanted: HubName) -> Any:
    """The data set; one of the hub is loaded once per process."""
    return load_once(wanted) if wanted.path is None else load_now(wanted)


def load_now(wanted: HubName) -> Any:
    """The data set, from the disk or from the hub."""
    library = import_library(str(wanted))
    path = Path(wanted.name).expanduser()
    builder = BUILDERS.get(path.suffix.lower()) if path.is_file() else None
    try:
        if is_saved_set(path):
            saved = library.load_from_disk(str(path))
            return saved if wanted.split is None else saved[wanted.split]
        if builder is not None:
            how = {"sep": "\t"} if path.suffix.lower() == ".tsv" else {}
            files = str(path)
            return library.load_dataset(
                builder, data_files=files, split=wanted.split, **how
            )
        place = str(path) if path.exists() else wanted.name
        return library.load_dataset(place, wanted.config, split=wanted.split)
    except Exception as cause:  # of many kinds, from the network to a file
        why = " ".join(str(cause).split()) or type(cause).__name__
        why = why if len(why) <= 300 else why[:297] + "..."
        advice = "check the files and the split after @"
        if not path.exists():
            advice = (
                "check its name, the configuration after a colon, the split after @, "
                "and the network"
            )
        raise DataError(f"{wanted} cannot be loaded ({why}): {advice}.") from cause


load_once = functools.lru_cache(maxsize=4)(load_now)


def import_library(what: str) -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        import datasets
    except ImportError:
        datasets = None
    if not hasattr(datasets, "load_dataset"):  # or a file of one's own is called so
        raise DataError(
            f"{what} is read by the library datasets of Hugging Face, which is not "
            'installed: pip install "invariance[hf]".'
        )
    return datasets


def find_title(data: Any) -> str:
    """What a data set in memory is called."""
    first = next(iter(data.values()), None) if isinstance(data, Mapping) else data
    return getattr(getattr(first, "info", None), "dataset_name", None) or "the data set"


def require_hub_column(hub: HubSet, name: str, what: str) -> str:
    """Raise unless there is a column of this name."""
    if name not in hub.features:
        near = suggest(name, hub.features)
        raise DataError(
            f"{hub.title} has no column {name!r} for {what}: it has "
            f"{describe_features(hub)}.{near and ' '}{near}"
        )
    return name


def describe_features(hub: HubSet) -> str:
    """The columns and what they hold."""
    return ", ".join(
        f"{name} ({describe_feature(feature)})"
        for name, feature in hub.features.items()
    )


def describe_feature(feature: Any) -> str:
    """What a column holds, in a word."""
    kind = type(feature).__name__
    if kind == "Value":
        return str(feature.dtype)
    return {"ClassLabel": "classes", "Image": "images"}.get(kind, kind)
