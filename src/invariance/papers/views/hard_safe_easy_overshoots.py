"""Without weights, hard negatives keep the value a bound and easy ones do not.

The paper's first example accepts what is unlike the positive: those are easy negatives.
"""

from .._claim import About, Cell, Figure, Rows, Values, Verdict
from ._small_world import (
    SIZES,
    expect_value,
    info_nce_value,
    make_world,
    plot_by_candidates,
)


def measure(cell: Cell) -> Values:
    """The unweighted value with near and with far negatives, exactly."""
    world, k = make_world(cell.generator()), cell["candidates"]
    critic, far = world.log_ratio, world.distance >= 3
    easy, hard = (world.accept(kept.double()) for kept in (far, ~far))
    return {
        "nats": world.nats,
        "info_nce": info_nce_value(world, critic, k).item(),
        "hard": expect_value(world, critic, hard, k).item(),
        "easy": expect_value(world, critic, easy, k).item(),
    }


def judge(rows: Rows) -> Verdict:
    """No kind of acceptance may come out above the truth."""
    above = {
        kind: max(row[kind] - row["nats"] for row in rows) for kind in ("hard", "easy")
    }
    if max(above.values()) <= 0:
        return Verdict(
            "holds", "Neither near nor far negatives give a value above the truth."
        )
    if above["hard"] > 0:
        return Verdict(
            "does not hold",
            f"Even near negatives overshoot, by up to {above['hard']:.2f} nats.",
        )
    below = all(row["hard"] <= row["info_nce"] for row in rows)
    return Verdict(
        "formula is wrong",
        f"Negatives that are unlike the positive overshoot the truth by up to "
        f"{above['easy']:.2f} nats; those that are like it "
        + ("stay below InfoNCE in every world." if below else "stay below the truth."),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """The values by the number of candidates, against the truth."""
    axes = figure.subplots()
    labels = {
        "nats": "mutual information",
        "info_nce": "InfoNCE: all places",
        "easy": "places 3 steps away and farther (example 1)",
        "hard": "places nearer than that",
    }
    plot_by_candidates(axes, rows, labels)
    axes.set(ylim=(0, None))


ABOUT = About(
    where="corollary 3.1.1, example 1, equation 4",
    says="Whatever acceptance negatives are chosen by, the unweighted value stays a "
    "lower bound of the mutual information, even if what is accepted is unlike the "
    "positive.",
    run="Worlds of ten places on a circle in which every expectation is a finite sum; "
    "negatives at least three places away from the positive, or nearer than that; the "
    "best critic, no weights.",
    refuted_if="A value above the mutual information.",
    sizes=SIZES,
    columns={
        "candidates K": "candidates",
        "truth, nats": "nats",
        "InfoNCE": "info_nce",
        "near negatives": "hard",
        "far negatives": "easy",
    },
    correction=r"""
    Without weights the value is
    $\mathbb E[g_1 - \log\frac1K\sum_k e^{g_k}]$ with negatives from q instead of p.
    The logarithm grows with every score in it. So if negatives from q score at least as
    high as those from p (*hard* ones), the value is at most that of InfoNCE, and so at
    most the mutual information. If they score lower (*easy* ones), it is larger, and
    nothing stops it at the truth. Example 1 should accept $f(y_1, y) \ge t$, as Ball
    Discrimination in section 5 does, and not $\le t$.
    """,
)
