"""What figures of claims have in common: a line per setting, a dot per seed."""

from collections.abc import Iterable
from typing import Any

from ._claim import Rows


def plot_lines(
    axes: Any,
    rows: Rows,
    *,
    x: str,
    y: str,
    by: str | None = None,
    labels: dict[Any, str] | None = None,
) -> None:
    """Means as lines and seeds as dots, of y against x; a color per value of ``by``.

    Args:
        axes: Of matplotlib.
        rows: What was measured.
        x: A setting with numbers.
        y: A value.
        by: A setting that tells lines apart.
        labels: What the legend calls values of ``by``, if not themselves.
    """
    groups = [None] if by is None else list(dict.fromkeys(rows[by]))
    for k, group in enumerate(groups):
        part = rows if by is None else rows.where(**{by: group})
        spreads, color = part.spreads(x, y), f"C{k % 10}"
        label = None if by is None else (labels or {}).get(group, str(group))
        means = [spread.mean for spread in spreads.values()]
        axes.plot(list(spreads), means, "-", color=color, label=label)
        axes.plot(part[x], part[y], ".", color=color, alpha=0.5, markersize=5)
    if by is not None:
        axes.legend(frameon=False, title=by.replace("_", " "))


def plot_values(axes: Any, rows: Rows, *, x: str, lines: dict[str, str]) -> None:
    """Several values against x, each a line with the label it is given here."""
    for k, (y, label) in enumerate(lines.items()):
        spreads, color = rows.spreads(x, y), f"C{k % 10}"
        means = [spread.mean for spread in spreads.values()]
        axes.plot(list(spreads), means, "-", color=color, label=label)
        axes.plot(rows[x], rows[y], ".", color=color, alpha=0.5, markersize=5)
    axes.legend(frameon=False)


def mark_sizes(axes: Any, sizes: Iterable[int | float], label: str) -> None:
    """A logarithmic axis with the sizes that were measured written on it."""
    ticks = sorted(set(sizes))
    axes.set(xscale="log", xlabel=label)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def mark_batches(axes: Any, rows: Rows, batch: str = "n") -> None:
    """The same of batch sizes."""
    mark_sizes(axes, rows[batch], "batch size K")


def mark_untrained(axes: Any, rows: Rows, *, x: str) -> None:
    """A line where the accuracy was before training, from the smallest x on."""
    level = sum(rows["untrained"]) / len(rows)
    axes.axhline(level, color="black", linewidth=1)
    axes.annotate("before training", (min(rows[x]), level), va="bottom")


def plot_bars(axes: Any, rows: Rows, *, x: str, y: str) -> None:
    """Means as bars and seeds as dots, of y for each value of x."""
    spreads = rows.spreads(x, y)
    places = {key: k for k, key in enumerate(spreads)}
    means = [spread.mean for spread in spreads.values()]
    axes.bar(list(places.values()), means, color="C0", alpha=0.5, width=0.7)
    axes.plot([places[key] for key in rows[x]], rows[y], "k.", markersize=4)
    axes.set_xticks(list(places.values()), [str(key) for key in places])
