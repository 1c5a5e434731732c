"""A reading: one number about embeddings, what it should be, and what it means."""

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reading:
    """A diagnostic with its scale, in numbers and in one sentence."""

    name: str
    """What was read, such as "uniformity"."""
    of: str
    """"h", the features that are kept, or "z", the projections that are trained."""
    value: float
    meaning: str
    """One sentence in words."""
    unit: str = ""
    """"nats", or nothing."""
    ideal: float | None = None
    """What the best possible embeddings would read, where that is known."""
    ceiling: float | None = None
    """The most (or the longest) this reading can show."""


@dataclass(frozen=True)
class Diagnosis:
    """All readings of one encoder, with the curves behind some of them."""

    readings: tuple[Reading, ...]
    spectrum: dict[str, list[float]]
    """Singular values of h and z, largest first, divided by the largest."""
    similarities: dict[str, list[float]]
    """Histograms of cosines: "edges", and the densities "positive" and "negative"."""
    notes: tuple[str, ...] = ()
    """What a reader should know, in sentences."""

    def __getitem__(self, key: tuple[str, str]) -> Reading:
        """One reading by its name and rows, as in ``found["uniformity", "h"]``."""
        for reading in self.readings:
            if (reading.name, reading.of) == key:
                return reading
        raise KeyError(key)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in diagnostics.json."""
        return dataclasses.asdict(self)

    def plus(self, *more: Reading, notes: tuple[str, ...] = ()) -> "Diagnosis":
        """The same with further readings and notes."""
        return dataclasses.replace(
            self, readings=(*self.readings, *more), notes=(*self.notes, *notes)
        )
