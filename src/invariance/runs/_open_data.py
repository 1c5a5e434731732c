"""The data of a run, or others that it is to look at, as its encoder takes them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..data import (
    Image,
    Source,
    data_exists,
    default_shape,
    fingerprint,
    has_captions,
    load,
    same_images,
)
from ..errors import DataError
from ._inputs import find_columns, find_own_columns
from ._open import OpenRun


@dataclass(frozen=True)
class RunData:
    """What a run is read or scored on."""

    run: OpenRun
    data: Any = None
    """A name, path, array or Dataset; None is the run's own."""
    device: Any = "cpu"
    data_root: str | None = None
    """Where named data sets are kept; None is where the run found them."""

    @property
    def root(self) -> str | None:
        """Where named data sets are."""
        return self.data_root or self.run.settings.data_root

    @cached_property
    def is_own(self) -> bool:
        """Whether these are the images it was trained on, wherever they lie."""
        run, data = self.run, self.data
        if data is None:
            return True
        known = run.images.get("fingerprint", "")
        if not known:
            return False
        how: dict[str, Any] = {"text_column": find_columns(run.folder, data)}
        how["image_column"] = find_own_columns(run.folder, data).get("image_column")
        if not isinstance(run.encoder.kind, Image):  # which only shapes images
            how["kind"] = run.encoder.kind
        return same_images(fingerprint(data, data_root=self.root, **how), known)

    def require(self, split: str) -> None:
        """Raise where a part cannot be there; nothing is loaded."""
        run, kind = self.run, self.run.encoder.kind
        if self.data is None and run.from_python:
            raise DataError(
                f"{run.name} was trained on an object given in Python, which a run "
                "folder cannot keep: name data with --data, or pass data= in Python."
            )
        if self.data is None and not data_exists(run.data):
            raise DataError(
                f"{run.name} was trained on {run.data!r}, which is gone, or cannot be "
                "seen from here: put it back, or say with --data FOLDER where it is "
                "now or what to use instead (data= in Python)."
            )
        if self.is_own and split == "test" and run.held_out_nothing:
            raise DataError(
                f"{run.name} was trained on all of its data, so nothing is held out to "
                "score on: name other data with --data (data= in Python), or use "
                "'invariance diagnose', which needs no labels."
            )
        if kind is None or (isinstance(kind, Image) and kind.shape[0] not in (1, 3)):
            shape = "x".join(map(str, run.encoder.input_shape))
            raise DataError(
                f"The encoder of {run.name} takes samples of {shape}; only grey and "
                "color images can be loaded for it."
            )

    def load(
        self, split: str, *, n: int | None = None
    ) -> tuple[Source, tuple[str, ...]]:
        """One part, and what one should know of it."""
        self.require(split)
        run, is_own = self.run, self.is_own
        settings, kind = run.settings, run.encoder.kind
        data = run.data if self.data is None else self.data
        parts: dict[str, Any] = {}
        if is_own:
            hold_out = "nothing" if run.held_out_nothing else settings.hold_out
            parts = {"labels": settings.labels, "hold_out": hold_out}
        if n is None and is_own and split == "train":
            n = settings.limit
        how: dict[str, Any] = {
            "kind": kind,
            "n": n,
            "data_root": self.root,
            "device": self.device,
            "text_column": find_columns(run.folder, data),
            **find_own_columns(run.folder, data),
            **parts,
        }
        how |= self._describe_captions(data)
        source = load(data, split=split, **how)
        only_scored = source.scores is not None and source.targets is None
        if only_scored and split == "test" and not is_own:  # nothing is fitted to them
            source = load(data, split="all", **how)
        notes = [str(note) for note in source.notes if note.kind == "unreadable"]
        known = run.images.get("fingerprint")
        if is_own and known and not same_images(source.origin.fingerprint, known):
            notes.append(
                f"The {source.kind.word}s of {source.name} are not those that "
                f"{run.name} was trained on: some have been added, removed or changed "
                "since."
            )
        if not is_own and isinstance(kind, Image):
            notes = [
                *_conversion(data, source, self.root, how.get("image_column")),
                *notes,
            ]
        return source, tuple(notes)

    def _describe_captions(self, data: Any) -> dict[str, Any]:
        """Whether images are read with their captions, and how, for a run on pairs."""
        run = self.run
        if run.towers is None or not (self.is_own or has_captions(data)):
            return {}
        settings, options = run.settings, {}
        if self.is_own:
            options = {
                "captions": settings.captions or True,
                "image_column": settings.image_column,
                "text_column": settings.text_column,
            }
        return {"captions": True, "other_kind": run.towers.other.kind, **options}


def _conversion(
    data: Any, source: Source, data_root: str | None, image_column: str | None
) -> list[str]:
    """A sentence if the images are not of the shape that the encoder takes."""
    before = default_shape(data, data_root=data_root, image_column=image_column)
    after = source.shape
    if before == after:
        return []
    changes = ["resized"] * (before[1:] != after[1:])
    if before[0] != after[0]:
        grey = after[0] == 1
        changes.append("turned to grey" if grey else "given three equal channels")
    a, b = ("x".join(map(str, shape)) for shape in (before, after))
    how = " and ".join(changes)
    return [f"Images of {source.name} were {how}: {a}, the encoder takes {b}."]
