"""A reading: one number about embeddings, what it should be, and what it means."""

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .markup import html_sentences, html_table

# Names of diagnostics.json before a reading had fields for its settings.
_OLD_NAMES = [
    re.compile(pattern)
    for pattern in (
        r"(gradient signal to noise), (?P<objective>.+), batches of (?P<batch_size>.+)",
        r"(information), batches of (?P<batch_size>\d+)",
        r"(information), pool of (?P<n_pool>[\d,]+)",
        r"(augmentation kept), (?P<augmentation>.+)",
    )
]


@dataclass(frozen=True)
class Reading:
    """A diagnostic with its scale, in numbers and in one sentence.

    >>> noise = Reading("gradient signal to noise", "z", 0.4, "Noisy.", objective="dcl",
    ...                 batch_size=64)
    >>> noise.label
    'gradient signal to noise, dcl, batches of 64'
    >>> noise.settings
    {'objective': 'dcl', 'batch_size': 64}
    """

    name: str
    """What was read, such as "uniformity", whatever the settings it was read with."""
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
    reachable: float | None = None
    """What its temperature allows of that, where it has one."""
    objective: str | None = None
    """The objective whose gradient was read."""
    augmentation: str | None = None
    """The parameter of the views that was looked for."""
    batch_size: int | None = None
    """Rows per batch, of readings that are means over batches."""
    n_pool: int | None = None
    """Rows of the pool, of readings that compare a batch with a pool."""

    @property
    def most(self) -> float | None:
        """The most that can be read: what is reachable, or else the ceiling."""
        return self.ceiling if self.reachable is None else self.reachable

    @property
    def settings(self) -> dict[str, str | int]:
        """What tells readings of one name apart, such as the batch size."""
        names = ("objective", "augmentation", "batch_size", "n_pool")
        pairs = ((name, getattr(self, name)) for name in names)
        return {name: value for name, value in pairs if value is not None}

    @property
    def setting_words(self) -> list[str]:
        """The settings, for people to read."""
        forms = {"batch_size": "batches of {:d}", "n_pool": "pool of {:,}"}
        return [forms.get(k, "{}").format(v) for k, v in self.settings.items()]

    @property
    def label(self) -> str:
        """The name and the settings, for people to read."""
        return ", ".join([self.name, *self.setting_words])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Reading":
        """A reading of diagnostics.json, of this version or of an older one.

        Older files have the settings inside the name. Unknown keys are left out, and a
        value that was not finite (null) becomes NaN.

        >>> Reading.from_dict({"name": "information, pool of 1,600", "of": "z",
        ...                    "value": 2.5, "meaning": ""}).n_pool
        1600
        """
        known = {field.name for field in dataclasses.fields(cls)}
        given = {key: value for key, value in values.items() if key in known}
        if "batch_size" not in given:
            given |= _settings_of_old_name(str(given.get("name", "")))
        if given.get("value") is None:
            given["value"] = math.nan
        return cls(**{"name": "", "of": "", "meaning": ""} | given)


def _settings_of_old_name(name: str) -> dict[str, Any]:
    for pattern in _OLD_NAMES:
        if match := pattern.fullmatch(name):
            numbers = ("batch_size", "n_pool")
            settings = {
                key: int(text.replace(",", "")) if key in numbers else text
                for key, text in match.groupdict().items()
            }
            return {"name": match[1], **settings}
    return {}


@dataclass(frozen=True)
class Diagnosis:
    """All readings of one encoder, with the curves behind some of them."""

    readings: tuple[Reading, ...]
    spectrum: dict[str, list[float]] = dataclasses.field(repr=False)
    """Singular values of h and z, largest first, divided by the largest."""
    similarities: dict[str, list[float]] = dataclasses.field(repr=False)
    """Histograms of cosines: "edges", and the densities "positive" and "negative"."""
    notes: tuple[str, ...] = ()
    """What a reader should know, in sentences."""

    def __getitem__(self, key: tuple[str, str]) -> Reading:
        """One reading by its label and rows, as in ``result["uniformity", "h"]``."""
        for reading in self.readings:
            if (reading.label, reading.of) == key:
                return reading
        raise KeyError(key)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in diagnostics.json."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Diagnosis":
        """What ``as_dict`` gave, or what an older version wrote."""
        return cls(
            tuple(map(Reading.from_dict, values.get("readings", ()))),
            dict(values.get("spectrum", {})),
            dict(values.get("similarities", {})),
            tuple(values.get("notes", ())),
        )

    def plus(self, *more: Reading, notes: tuple[str, ...] = ()) -> "Diagnosis":
        """The same with further readings and notes."""
        return dataclasses.replace(
            self, readings=(*self.readings, *more), notes=(*self.notes, *notes)
        )

    def __str__(self) -> str:
        lines = [
            f"{r.label} ({r.of}): {f'{r.value:.4g} {r.unit}'.strip()}. {r.meaning}"
            for r in self.readings
        ]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        head = ("reading", "of", "value", "ideal", "at most", "what it says")
        rows = [
            (
                r.label,
                r.of,
                f"{r.value:.4g} {r.unit}",
                "" if r.ideal is None else f"{r.ideal:.4g}",
                "" if r.most is None else f"{r.most:.4g}",
                r.meaning,
            )
            for r in self.readings
        ]
        return html_table(rows, head) + html_sentences(self.notes)
