"""A claim of a paper: what it says, what is run, and what would refute it.

A claim is measured in cells. A cell is one setting of everything, seed included; it
gives a few plain numbers and knows nothing of other cells, so that measuring can stop
anywhere and go on. The verdict is computed from the rows, and from nothing else:

    cells -> measure -> rows -> judge -> verdict
                          |---> draw, table

The file of a claim has these three functions, and in ``ABOUT`` what the paper says,
what is run, and which cells.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import torch

from ._spread import Spread

Values = Mapping[str, Any]  # by name, what a cell gave
Cells = Sequence[Mapping[str, Any]]  # the settings of each, by name
Figure = Any  # of matplotlib, without which claims are measured and judged all the same

Size = Literal["tiny", "quick", "full"]
EVERY_SIZE: tuple[Size, ...] = get_args(Size)
BELOW_FULL: tuple[Size, ...] = ("tiny", "quick")
Outcome = Literal[
    "holds",
    "holds within limits",
    "does not hold",
    "formula is wrong",
    "not decided",
]


@dataclass(frozen=True)
class Cell:
    """One measurement: its settings, and a folder that it may fill."""

    settings: Mapping[str, Any]
    folder: Path
    """Empty, and deleted afterwards unless runs are to be kept."""

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    @property
    def seed(self) -> int:
        return int(self.settings.get("seed", 0))

    def generator(self, stream: int = 0) -> torch.Generator:
        """Its own random numbers: the same for every cell of this seed."""
        return torch.Generator().manual_seed(1_000_003 * self.seed + stream)


@dataclass(frozen=True)
class Row:
    """What a cell gave."""

    settings: Mapping[str, Any]
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name] if name in self.values else self.settings[name]


class Rows(Sequence[Row]):
    """The rows of a claim, and ways to look at them.

    >>> rows = Rows(Row({"n": n, "seed": s}, {"error": s / n}) for n in (1, 2)
    ...             for s in (1, 3))
    >>> rows.by("n", "error")
    {1: [1.0, 3.0], 2: [0.5, 1.5]}
    >>> rows.where(n=2)["error"]
    [0.5, 1.5]
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __getitem__(self, at: Any) -> Any:
        """A row by its place, or a column by its name."""
        return [row[at] for row in self] if isinstance(at, str) else self._rows[at]

    def where(self, **settings: Any) -> "Rows":
        """Those with these settings."""
        return Rows(
            row
            for row in self
            if all(row[name] == value for name, value in settings.items())
        )

    def by(self, setting: str, value: str) -> dict[Any, list[Any]]:
        """A value by a setting, one entry per seed; settings in their first order."""
        groups: dict[Any, list[Any]] = {}
        for row in self:
            groups.setdefault(row[setting], []).append(row[value])
        return groups

    def spreads(self, setting: str, value: str) -> dict[Any, Spread]:
        """The same with mean and spread over seeds."""
        groups = self.by(setting, value)
        return {key: Spread.of(values) for key, values in groups.items()}


@dataclass(frozen=True)
class Verdict:
    """What the rows say about the claim."""

    outcome: Outcome
    because: str
    """One or two sentences with the numbers that decide it."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What the file of a claim says of it."""

    where: str
    """Section, equation or figure, such as "section 4.3, figure 1"."""
    says: str
    """What is claimed, in our words."""
    run: str
    """What is run here."""
    refuted_if: str
    """What would refute it."""
    sizes: Mapping[Size, Cells] = field(repr=False)
    """The cells: "quick" takes at most 2 minutes of 2 cores, "tiny" a second or two."""
    toy: Sequence[Size] = field(default=(), repr=False)
    """Sizes far below those of the paper's own trainings: a verdict from them is about
    so small a training, and pages say so."""
    columns: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headings of the table, and the setting or value below each; empty: all there
    are. Rows that differ in the seed only are one line."""
    correction: str = field(default="", repr=False)
    """Where the paper is wrong: the right formula and how to get there, in Markdown."""


@dataclass(frozen=True, kw_only=True)
class Claim(About):
    """Everything about one claim."""

    name: str
    """That of its file."""
    paper: str
    """A key of ``PAPERS``: the folder of its file."""
    measure: Callable[[Cell], Values] = field(repr=False)
    judge: Callable[[Rows], Verdict] = field(repr=False)
    draw: Callable[[Rows, Figure], None] = field(repr=False)


def collect_claims(paper: str, *files: ModuleType) -> tuple[Claim, ...]:
    """The claims of a paper, from files with ABOUT, measure, judge and draw."""
    return tuple(
        Claim(
            **vars(file.ABOUT),
            name=file.__name__.rpartition(".")[2],
            paper=paper,
            measure=file.measure,
            judge=file.judge,
            draw=file.draw,
        )
        for file in files
    )


def grid(**values: Any) -> Cells:
    """Every combination, the last name changing fastest; a text or a number stays.

    >>> grid(n=(8, 16), steps=5, seed=[0])
    [{'n': 8, 'steps': 5, 'seed': 0}, {'n': 16, 'steps': 5, 'seed': 0}]
    """
    several = {
        name: [each] if isinstance(each, str | int | float) else list(each)
        for name, each in values.items()
    }
    products = itertools.product(*several.values())
    return [dict(zip(several, product, strict=True)) for product in products]


def plan(
    *, tiny: Values, quick: Values, full: Values, **shared: Any
) -> Mapping[Size, Cells]:
    """A grid per size, of what all sizes share, what each has, and so many seeds.

    >>> plan(tiny={"seeds": 1}, quick={"seeds": 2}, full={"seeds": 9}, n=(4, 8))["tiny"]
    [{'n': 4, 'seed': 0}, {'n': 8, 'seed': 0}]
    """
    sizes: dict[Size, Values] = {"tiny": tiny, "quick": quick, "full": full}
    cells = {}
    for size, more in sizes.items():
        values = {**shared, **more}
        values["seed"] = range(values.pop("seeds"))
        cells[size] = grid(**values)
    return cells
