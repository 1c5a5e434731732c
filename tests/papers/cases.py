"""Made-up results of claims: some that support a claim, some that contradict it."""

import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from invariance.papers import Claim, Row, Rows

Values = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """Functions from the settings of a cell to what it might have given."""

    supports: Values
    contradicts: Values


def make_rows(claim: Claim, values: Values, size: str = "quick") -> Rows:
    """A row for every cell of a size."""
    return Rows(Row(cell, values(cell)) for cell in claim.sizes[size])


def wobble(settings: Mapping[str, Any], scale: float = 0.01) -> float:
    """A little noise that depends on the settings, so that seeds differ."""
    return random.Random(repr(sorted(settings.items()))).uniform(-scale, scale)


def make_noise(values: Values) -> Values:
    """Numbers by the same names that go up and down with the seed, and nothing else.

    How far depends on the other settings, so that these differ, but never one way.
    """

    def replace(value: Any, number: float) -> Any:
        if isinstance(value, dict):
            return {key: replace(each, number) for key, each in value.items()}
        if isinstance(value, list):
            return [replace(each, number) for each in value]
        return number if isinstance(value, int | float) else value

    def draw(settings: Mapping[str, Any]) -> dict[str, Any]:
        others = sorted((k, v) for k, v in settings.items() if k != "seed")
        share = zlib.crc32(repr(others).encode()) % 1000 / 1000
        number = 50 + (-1) ** settings["seed"] * (10 + 20 * share)
        return replace(values(settings), number)

    return draw
