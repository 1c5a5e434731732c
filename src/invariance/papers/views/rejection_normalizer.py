"""A rejection sampler has a normalizing constant, which the paper leaves out."""

from .._claim import About, Cell, Figure, Rows, Values, Verdict
from ._small_world import (
    SIZES,
    expect_value,
    favor_near,
    make_world,
    plot_by_candidates,
)


def measure(cell: Cell) -> Values:
    """The value with weights 1/r and with Z/r, and their mean weights."""
    world, k = make_world(cell.generator()), cell["candidates"]
    accept = favor_near(world)
    law, critic = world.accept(accept), world.log_ratio
    rate = (accept * world.prior).sum(1, keepdim=True)  # Z, by y_1
    printed = expect_value(world, critic, law, k, weight=1 / accept).item()
    right = expect_value(world, critic, law, k, weight=rate / accept).item()
    mean = (law / accept).sum(1) ** (k - 1)
    return {
        "nats": world.nats,
        "printed": printed - k + 1,
        "right": right,
        "mean_weight": (world.prior * mean).sum().item(),
    }


def judge(rows: Rows) -> Verdict:
    """Weights of a change of measure are 1 on average, and a bound stays below."""
    over = max(row["printed"] - row["nats"] for row in rows)
    least = min(rows["mean_weight"])
    if over <= 0:
        return Verdict(
            "holds",
            "Weighted by 1/r the value stays below the mutual information everywhere.",
        )
    kept = all(row["right"] <= row["nats"] for row in rows)
    return Verdict(
        "formula is wrong",
        f"Weights 1/r are {least:.1f} or more on average instead of 1, and the value, "
        f"even with the paper's - K + 1, exceeds the truth by up to {over:.1f} nats"
        + ("; with weights Z/r it never does." if kept else "."),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Values by the number of candidates, against the truth."""
    axes = figure.subplots()
    labels = {
        "nats": "mutual information",
        "right": "weights Z/r",
        "printed": "weights 1/r and - K + 1, as in the paper",
    }
    plot_by_candidates(axes, rows, labels)
    axes.set(yscale="symlog")
    axes.set_ylim(top=max(rows["printed"]) * 2)


ABOUT = About(
    where="corollary 3.1.1",
    says="Negatives that are accepted with probability r have the density r p, so "
    "their weight is 1/r, and the weighted value minus K plus 1 is a lower bound.",
    run="Worlds of ten places in which every expectation is a finite sum; the "
    "acceptance falls from 1 at the positive to 0.2 far away; the best critic.",
    refuted_if="A value above the mutual information.",
    sizes=SIZES,
    columns={
        "candidates K": "candidates",
        "truth, nats": "nats",
        "weights 1/r": "printed",
        "weights Z/r": "right",
        "mean of 1/r": "mean_weight",
    },
    correction=r"""
    r p does not add up to 1. What a rejection sampler draws has the density
    $q(y\mid y_1) = r(y\mid y_1)\,p(y)/Z(y_1)$ with
    $Z(y_1) = \mathbb E_p[r(y\mid y_1)]$, the share of proposals that is accepted,
    so $p/q = Z/r$. With 1/r instead, every anchor is multiplied by
    $Z(y_1)^{-(K-1)}$, which is above 1 and grows without limit with K. Z is easy to
    get: count how many proposals were accepted.
    """,
)
