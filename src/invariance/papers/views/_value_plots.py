"""Several values of the same rows in one figure: as lines, or side by side."""

from collections.abc import Mapping
from typing import Any

from .._claim import Rows
from .._spread import Spread

COLORS = ("black", "C2", "C3", "C0", "C1", "C4")


def plot_values(axes: Any, rows: Rows, x: str, labels: Mapping[str, str]) -> None:
    """A line of means per value, and a dot per seed; the first line is black."""
    for color, (value, label) in zip(COLORS, labels.items(), strict=False):
        spreads = rows.spreads(x, value)
        means = [spread.mean for spread in spreads.values()]
        axes.plot(list(spreads), means, "-", color=color, label=label)
        axes.plot(rows[x], rows[value], ".", color=color, alpha=0.35, markersize=4)
    axes.set_xticks(sorted(set(rows[x])))
    axes.legend(frameon=False)


def stack_values(axes: Any, rows: Rows, labels: Mapping[str, str]) -> None:
    """Values from top to bottom: a dot per seed, a bar at the mean."""
    for place, value in enumerate(labels):
        spread = Spread.of(rows[value])
        axes.plot(rows[value], [place] * len(rows), ".", color="C0", alpha=0.4)
        axes.plot([spread.mean] * 2, [place - 0.25, place + 0.25], color="C0", lw=2)
    axes.set_yticks(range(len(labels)), list(labels.values()))
    axes.invert_yaxis()
