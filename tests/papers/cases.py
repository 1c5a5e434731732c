"""Made-up results of claims: some that support a claim, some that contradict it."""

import random
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
