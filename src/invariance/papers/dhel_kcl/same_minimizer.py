"""Mini-batches and the whole set have the same minimizer, if batches change."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from ... import alignment
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_bars
from ._embedding_descent import (
    OBJECTIVES,
    SLACK,
    Loss,
    descend,
    distance_to_simplex,
    make_simplex,
)

N, WIDTH, BATCH = 6, 6, 3
NEAR = 0.02  # a difference of cosines that counts as none
WHOLE, EVERY, FIXED = "all at once", "every batch", "fixed batches"
BATCHES: dict[str, Sequence[tuple[int, ...]]] = {
    WHOLE: [tuple(range(N))],
    EVERY: list(itertools.combinations(range(N), BATCH)),
    FIXED: [tuple(range(BATCH)), tuple(range(BATCH, N))],
}
NAMES = ("InfoNCE", "DCL", "DHEL", "KCL")


def average(loss: Loss, batches: Sequence[tuple[int, ...]]) -> Loss:
    """The mean loss of these batches."""

    def mean_loss(u: Tensor, v: Tensor) -> Tensor:
        return torch.stack([loss(u[list(b)], v[list(b)]) for b in batches]).mean()

    return mean_loss


def measure(cell: Cell) -> Values:
    """Distance from the simplex of all samples."""
    loss = average(OBJECTIVES[cell["objective"]], BATCHES[cell["batches"]])
    steps = cell["steps"]
    u, v = descend(loss, N, WIDTH, generator=cell.generator(), steps=steps)
    corners = make_simplex(N, WIDTH)
    return {
        "distance": distance_to_simplex(u),
        "alignment": alignment(u, v),
        "excess": (loss(u, v) - loss(corners, corners)).item(),
    }


def judge(rows: Rows) -> Verdict:
    """The simplex must be reached by the mean over every batch, too."""
    for row in rows:
        if row["batches"] == FIXED or row["distance"] < NEAR:
            continue
        arrived = row["excess"] < SLACK
        words = "goes as low" if arrived else "did not come as low as the simplex"
        return Verdict(
            "does not hold" if arrived else "not decided",
            f"With {row['batches']}, the loss of {row['objective']} {words} at "
            f"{row['distance']:.2f} away from the simplex of all {N} samples in a "
            "cosine.",
        )
    reached = max(rows.where(batches=EVERY)["distance"])
    fixed = rows.where(batches=FIXED)
    missed = min(fixed["distance"])
    if missed < NEAR:
        return Verdict(
            "holds",
            f"All {len(NAMES)} objectives end at the simplex of all {N} samples, "
            f"within {reached:.2g} of every cosine, whichever way batches are made.",
        )
    return Verdict(
        "holds within limits",
        f"Averaged over every batch of {BATCH}, all {len(NAMES)} objectives end within "
        f"{reached:.1g} of the simplex of all {N} samples, as they do without batches. "
        "The limit: if the batches are always the same, nothing pushes one away from "
        f"the other, and the farthest cosine is off by {missed:.2g} or more.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """The distance for each way to make batches."""
    panels = figure.subplots(1, 3, sharey=True)
    for axes, batches in zip(panels, BATCHES, strict=True):
        plot_bars(axes, rows.where(batches=batches), x="objective", y="distance")
        axes.set_title(batches)
        axes.tick_params("x", rotation=45)
    panels[0].set_ylabel("farthest cosine from the simplex")


ABOUT = About(
    where="section 4 (mechanism 1)",
    says="The minimizer of the mini-batch loss also minimizes its expectation over the "
    "data: views are aligned and samples spread evenly.",
    run=f"Gradient descent on the embeddings of {N} samples in {WIDTH} dimensions: all "
    f"at once, on the mean over all {len(BATCHES[EVERY])} batches of {BATCH}, which is "
    "the expectation, and on two batches that always stay the same.",
    refuted_if="Descent on the mean over every batch does not end at the simplex of "
    "all samples.",
    sizes=plan(
        objective=NAMES,
        batches=BATCHES,
        tiny={"steps": 1, "seeds": 1},
        quick={"steps": 100, "seeds": 5},
        full={"steps": 500, "seeds": 10},
    ),
    columns={
        "objective": "objective",
        "batches": "batches",
        "farthest cosine from the simplex": "distance",
        "alignment": "alignment",
        "loss above the simplex's": "excess",
    },
)
