"""Trainings that differ in one thing, and what to conclude.

An arm is a name and the settings of ``inv.Train`` that make it. All arms of a seed see
the same samples, so they are compared seed by seed, by the votes of nearest neighbors.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from .._claim import Cell, Cells, Rows, Size, Verdict, plan
from .._figures import plot_bars
from .._small_runs import (
    SHAPES,
    list_sizes,
    read_accuracy,
    read_untrained,
    train_on_shapes,
    train_small,
)
from .._spread import Spread, compare

Arms = Mapping[str, Mapping[str, Any]]
ALIKE = 5.0  # percentage points; smaller differences are called none
ON_SHAPES = (
    f"{SHAPES} 1,024 images and 8 epochs at the quick size; accuracy is that of "
    "nearest neighbors on test images."
)


def plan_sizes(arms: Iterable[str]) -> Mapping[Size, Cells]:
    """The cells: every arm with every seed."""
    names = tuple(arms)
    return list_sizes(arm=names, tiny={"arm": names[:2]})


def plan_on_shapes(arms: Iterable[str]) -> Mapping[Size, Cells]:
    """The same for arms that need images: fewer steps, since each takes longer."""
    names = tuple(arms)
    return plan(
        arm=names,
        tiny={"arm": names[:2], "samples": 64, "epochs": 1, "seeds": 1},
        quick={"samples": 1024, "epochs": 8, "seeds": 3},
        full={"samples": 4000, "epochs": 40, "seeds": 5},
    )


def train_arm(cell: Cell, arms: Arms) -> dict[str, float]:
    """Accuracy on generated codes, with and without training."""
    run = train_small(cell, **arms[cell["arm"]])
    return {"accuracy": read_accuracy(cell, run), "untrained": read_untrained(cell)}


def train_arm_on_shapes(cell: Cell, arms: Arms) -> dict[str, float]:
    """The same on generated images."""
    run = train_on_shapes(cell, protocols=("knn",), **arms[cell["arm"]])
    return {"accuracy": run.accuracy(), "untrained": run.untrained()}


def subtract(rows: Rows, arm: str, other: str) -> Spread:
    """How much more accurate one arm is than another, seed by seed, in points."""
    accuracy = rows.by("arm", "accuracy")
    return compare(accuracy[arm], accuracy[other])


def show_difference(difference: Spread) -> str:
    """With its interval, in words."""
    if difference.n < 2:
        return f"{difference.mean:+.1f} points (one seed)"
    return (
        f"{difference.mean:+.1f} points "
        f"(95 %: {difference.low:+.1f} to {difference.high:+.1f})"
    )


def tell_of_nothing_learned(rows: Rows, *arms: str) -> Verdict | None:
    """A verdict where none of these arms is better than the encoder was at first."""
    parts = [rows.where(arm=arm) for arm in arms]
    gains = [compare(part["accuracy"], part["untrained"]) for part in parts]
    if any(gain.is_above_zero for gain in gains):
        return None
    shown = ", ".join(
        f"{arm} {show_difference(gain)}" for arm, gain in zip(arms, gains, strict=True)
    )
    return Verdict(
        "not decided",
        "So short a training teaches neither of them anything that could be compared. "
        f"Against the encoder before training: {shown}.",
    )


def draw_arms(axes: Any, rows: Rows, label: str = "") -> None:
    """A bar per arm and a dot per seed; a line for the encoder without training."""
    plot_bars(axes, rows, x="arm", y="accuracy")
    untrained = Spread.of(rows["untrained"]).mean
    axes.axhline(untrained, color="0.4", linestyle=":")
    axes.text(
        *(0.995, untrained, "without training"),
        transform=axes.get_yaxis_transform(),
        ha="right",
        va="bottom",
        color="0.4",
    )
    axes.set(ylabel="accuracy of nearest neighbors, %", xlabel=label)


COLUMNS = {
    "arm": "arm",
    "accuracy, %": "accuracy",
    "without training, %": "untrained",
}
