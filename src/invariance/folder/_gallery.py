"""The pictures of a run, checked: a gallery is whole or it is not shown."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._files import finite_number

HEADS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG": "image/png"}


@dataclass(frozen=True)
class Caption:
    """A caption, and the pictures nearest to it, best first."""

    text: str
    pictures: list[int]
    scores: list[float]
    right: list[bool]
    """Whether each shows what the caption is about."""


@dataclass(frozen=True)
class Gallery:
    """What ``gallery/`` holds; all lists are as long as there are pictures."""

    size: int
    columns: int
    names: list[str]
    labels: list[int] | None
    clusters: list[int]
    class_names: list[str]
    places: list[tuple[float, float]]
    neighbors: list[list[int]]
    scores: list[list[float]]
    source: str
    of: int
    """How many pictures they were chosen from."""
    sheet: str | None
    """The thumbnails as a data address."""
    views: str | None
    """The views as a data address."""
    captions: list[Caption]
    """Some captions, where pictures have any."""
    written: bool = False
    """Whether samples are texts; those are their names."""

    def __len__(self) -> int:
        return len(self.names)

    def label(self, i: int) -> str:
        """The class of a picture in words; empty where there are none."""
        return "" if self.labels is None else self.class_name(self.labels[i])

    def class_name(self, k: int) -> str:
        """What a label means."""
        return self.class_names[k] if 0 <= k < len(self.class_names) else str(k)

    @property
    def label_names(self) -> dict[int, str]:
        """What the labels that occur mean; empty where there are none."""
        return {k: self.class_name(k) for k in sorted(set(self.labels or ()))}

    def spot(self, i: int) -> tuple[int, int]:
        """Left and top of a thumbnail on the sheet."""
        return i % self.columns * self.size, i // self.columns * self.size

    def agreement(self, i: int) -> float | None:
        """Share of a picture's neighbors that have its label."""
        if self.labels is None or not self.neighbors[i]:
            return None
        same = [self.labels[j] == self.labels[i] for j in self.neighbors[i]]
        return sum(same) / len(same)


def read_gallery(folder: Path) -> tuple[Gallery | None, list[str]]:
    """The gallery of a run, and a sentence for each thing that is not as it should."""
    path, problems = folder / "gallery.json", []
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        parts = _check(about)
    except FileNotFoundError:
        return None, ["gallery/gallery.json is missing."]
    except OSError as cause:
        return None, [f"gallery/gallery.json cannot be read: {cause.strerror}."]
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        return None, ["gallery/gallery.json is half written or broken."]
    for key, name in (("sheet", "thumbnails.jpg"), ("views", "views.png")):
        parts[key] = _address(folder / name)
        if parts[key] is None:
            problems.append(f"gallery/{name} is missing or broken.")
    return Gallery(**parts), problems


def _check(about: Any) -> dict[str, Any]:
    """The parts of gallery.json; raises where one does not fit the others."""
    count = about["count"]
    written = "texts" in about
    names = [str(name) for name in about["texts" if written else "names"]]
    places = [(_finite(x), _finite(y)) for x, y in about["map"]]
    near = [[_index(j, count) for j in row] for row in about["neighbours"]]
    scores = [[_finite(s) for s in row] for row in about["scores"]]
    clusters = [_index(k, 10**9) for k in about["clusters"]]
    labels = about.get("labels")
    if labels is not None:
        labels = [_index(k, 10**9, low=-(10**9)) for k in labels]
    size, columns = _index(about["size"], 10**5, 1), _index(about["columns"], 10**5, 1)
    lengths = {len(names), len(places), len(near), len(scores), len(clusters)}
    lengths |= {count} if labels is None else {count, len(labels)}
    if len(lengths) != 1 or not count or [*map(len, near)] != [*map(len, scores)]:
        raise ValueError("lists of different lengths")
    return {
        "size": size,
        "columns": columns,
        "names": names,
        "captions": [_check_caption(c, count) for c in about.get("captions", [])],
        "written": written,
        "labels": labels,
        "clusters": clusters,
        "class_names": [str(name) for name in about.get("class_names") or []],
        "places": places,
        "neighbors": near,
        "scores": scores,
        "source": str(about.get("source", "")),
        "of": _index(about.get("of", count), 10**12),
    }


def _check_caption(about: dict[str, Any], count: int) -> Caption:
    pictures = [_index(i, count) for i in about["pictures"]]
    scores = [_finite(s) for s in about["scores"]]
    right = [bool(r) for r in about["right"]]
    if not len(pictures) == len(scores) == len(right):
        raise ValueError("lists of different lengths")
    return Caption(str(about["text"]), pictures, scores, right)


def _index(value: object, end: int, low: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < end:
        raise ValueError(f"not a number from {low} to {end}")
    return value


def _finite(value: object) -> float:
    number = finite_number(value)
    if number is None:
        raise ValueError("not a finite number")
    return number


def _address(path: Path) -> str | None:
    """A picture as an address that needs no other file."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    kind = next((k for head, k in HEADS.items() if data.startswith(head)), None)
    text = base64.b64encode(data).decode()
    return None if kind is None else f"data:{kind};base64,{text}"
