"""VINCE's constant, - K + 1, makes a bound that says nothing.

The constant pays for an inequality that the proof does not need. Without it the
weighted form is exactly InfoNCE, and so a bound by itself.
"""

import math

from .._claim import About, Cell, Figure, Rows, Values, Verdict
from ._small_world import (
    SIZES,
    expect_value,
    favor_near,
    info_nce_value,
    make_world,
    plot_by_candidates,
)


def measure(cell: Cell) -> Values:
    """The bound with and without its constant, exactly."""
    world, k = make_world(cell.generator()), cell["candidates"]
    law = world.accept(favor_near(world))
    weight = world.marginal / law
    bare = expect_value(world, world.log_ratio, law, k, weight=weight).item()
    return {
        "nats": world.nats,
        "without": bare,
        "with": bare - k + 1,
        "as_printed": bare - math.log(k) - k + 1,
        "info_nce": info_nce_value(world, world.log_ratio, k).item(),
    }


def judge(rows: Rows) -> Verdict:
    """A bound has to be below the truth, and worth something above nothing."""
    above = [row for row in rows if row["with"] > row["nats"]]
    best, worst = max(rows["with"]), min(rows["with"])
    if above:
        return Verdict(
            "does not hold",
            f"The value is above the mutual information in {len(above)} of "
            f"{len(rows)} cases.",
        )
    if best > 0:
        return Verdict(
            "holds", f"The value is below the truth and reaches {best:.2f} nats."
        )
    gap = max(abs(row["without"] - row["info_nce"]) for row in rows)
    return Verdict(
        "holds within limits",
        f"The bound is true but vacuous: it is never above {best:.2f} nats and falls "
        f"to {worst:.2f}, while information is never below 0. Without the constant it "
        f"is InfoNCE to within {gap:.0e} nats and reaches {max(rows['without']):.2f}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Both values and the truth by the number of candidates."""
    axes = figure.subplots()
    labels = {
        "nats": "mutual information",
        "without": "without the constant",
        "with": "with - K + 1, as in the paper",
    }
    plot_by_candidates(axes, rows, labels)
    axes.axhspan(min(rows["as_printed"]), 0, color="0.93", zorder=0)
    axes.annotate("says nothing", (2, min(rows["with"]) * 0.9), color="0.4")
    axes.set(ylabel="bound, nats")


ABOUT = About(
    where="theorem 3.1, equation 3",
    says="With negatives from a law q(y | y_1) and weights p/q, the mutual information "
    "is at least the weighted InfoNCE value minus K plus 1.",
    run="Worlds of ten places in which every expectation is a finite sum, negatives "
    "that are accepted more often near the positive, the best critic, 2 to 5 "
    "candidates; with the constant and without it.",
    refuted_if="A value above the mutual information. If the value is never above 0, "
    "the theorem is true but empty.",
    sizes=SIZES,
    columns={
        "candidates K": "candidates",
        "truth, nats": "nats",
        "with - K + 1": "with",
        "without": "without",
        "InfoNCE": "info_nce",
    },
    correction=r"""
    Drop the constant, and keep the $\frac1K$ inside the logarithm that equation 3
    leaves out:
    $$I \ge \mathbb E_q\Big[W\,\log\frac{e^{g_1}}{\frac1K\sum_k e^{g_k}}\Big],\qquad
    W = \prod_{k\ge2}\frac{p(y_k)}{q(y_k\mid y_1)}.$$
    Multiplying by p/q and drawing from q is the same as drawing from p, so the right
    side *is* InfoNCE, which is known to be a bound. The paper instead bounds the second
    term of its proof, $\mathbb E[e^{g_1}/\frac1K\sum_k e^{g_k}]$, by K, where it is
    exactly 1 before and after the change of measure. As InfoNCE is at most log K,
    the value with the constant is at most $\log K - K + 1 \le 0$.
    """,
)
