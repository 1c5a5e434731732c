"""Readings of the diagnostics: h beside z, each with its ideal and what it says.

A name like "gradient signal to noise, dcl, batches of 64" is one of a family: those of
large families are a small table of numbers, all others a line of the main table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._html import Html, lines, table, tag
from ._numbers import minus, number, told

LARGE = 4  # members, from which a family has a table of its own
OF = {"h": "features h", "z": "projections z"}


@dataclass(frozen=True)
class Reading:
    """One number, checked."""

    name: tuple[str, ...]
    """Parted by commas."""
    of: str
    value: float | None
    unit: str
    ideal: float | None
    ceiling: float | None
    meaning: str


def read(found: Any) -> list[Reading]:
    """What is a reading in a list of anything."""
    return [
        Reading(
            tuple(str(one.get("name", "?")).split(", ")),
            str(one.get("of") or ""),
            number(one.get("value")),
            str(one.get("unit") or ""),
            number(one.get("ideal")),
            number(one.get("ceiling")),
            str(one.get("meaning") or ""),
        )
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
    ]


def readings(found: Sequence[Reading]) -> Html:
    """The main table, then the large families."""
    families: dict[str, list[Reading]] = {}
    for reading in found:
        families.setdefault(reading.name[0], []).append(reading)
    large = {
        name: own
        for name, own in families.items()
        if len({reading.name for reading in own}) >= LARGE
    }
    single = [reading for reading in found if reading.name[0] not in large]
    parts = [_main(single)] if single else []
    if large:
        drawn = [_family(name, own) for name, own in large.items()]
        parts.append(tag("div", lines(*drawn), class_="families"))
    return lines(*parts)


def _main(found: Sequence[Reading]) -> Html:
    kinds = list(dict.fromkeys(reading.of for reading in found))
    names = dict.fromkeys(reading.name for reading in found)
    by_place = {(reading.name, reading.of): reading for reading in found}
    rows = []
    for name in names:
        own = [by_place.get((name, of)) for of in kinds]
        said = [(r.of, r.meaning) for r in own if r is not None and r.meaning]
        several = len({meaning for _, meaning in said}) > 1
        meanings = [
            tag("p", *((tag("b", of), " ") if several else ()), meaning)
            for of, meaning in (said if several else said[:1])
        ]
        cells = [_cell(r) if r is not None else "" for r in own]
        rows.append([", ".join(name), *cells, lines(*meanings)])
    head = ["reading", *(OF.get(of, of) for of in kinds), "what it says"]
    return table(head, rows, label="Diagnostics", kind="readings")


def _cell(reading: Reading) -> Html:
    """The value, and what it would be at best."""
    value = "not finite" if reading.value is None else told(reading.value)
    below = ""
    if reading.ideal is not None:
        below = f"ideal {told(reading.ideal)}"
    elif reading.ceiling is not None:
        below = f"at most {told(reading.ceiling)}"
    unit = f" {reading.unit}" if reading.unit else ""
    return Html(tag("span", value + unit) + tag("small", below))


def _family(name: str, found: Sequence[Reading]) -> Html:
    """Members down; their second part, or h and z, across."""
    deep = all(len(reading.name) == 3 for reading in found)
    down = [r.name[1] if deep else ", ".join(r.name[1:]) for r in found]
    over = [r.name[2] if deep else OF.get(r.of, r.of) for r in found]
    columns = list(dict.fromkeys(over))
    cells = {
        (row, column): reading
        for row, column, reading in zip(down, over, found, strict=True)
    }
    rows: list[list[object]] = []
    for row in dict.fromkeys(down):
        line: list[object] = [row or name]
        for column in columns:
            reading = cells.get((row, column))
            value = None if reading is None else reading.value
            line.append("–" if value is None else minus(f"{value:.3f}"))
        rows.append(line)
    example = tag("p", f"For example: {found[-1].meaning}", class_="note")
    body = table(["", *columns], rows, label=name, kind="numbers small")
    return tag("div", tag("h3", name[:1].upper() + name[1:]), example, body)
