"""A ring of negatives without the positive in the sum is no bound."""

from .._claim import About, Cell, Figure, Rows, Values, Verdict
from ._small_world import SIZES, expect_value, make_world, plot_by_candidates


def measure(cell: Cell) -> Values:
    """The value of the ring with the positive in the denominator and without."""
    world, k = make_world(cell.generator()), cell["candidates"]
    steps = world.distance
    law = world.accept(((steps >= 1) & (steps <= 2)).double())
    critic = world.log_ratio
    without = expect_value(world, critic, law, k, with_positive=False)
    return {
        "nats": world.nats,
        "with": expect_value(world, critic, law, k).item(),
        "without": without.item(),
    }


def judge(rows: Rows) -> Verdict:
    """A bound stays below the truth."""
    over = max(row["without"] - row["nats"] for row in rows)
    share = sum(row["without"] > row["nats"] for row in rows) / len(rows)
    if over <= 0:
        return Verdict("holds", "Without the positive the value stays below the truth.")
    kept = all(row["with"] <= row["nats"] for row in rows)
    return Verdict(
        "formula is wrong",
        f"Without the positive in the denominator the value is above the mutual "
        f"information in {share:.0%} of the cases, by up to {over:.2f} nats"
        + ("; with it, in none." if kept else "."),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Both values by the number of candidates, against the truth."""
    axes = figure.subplots()
    labels = {
        "nats": "mutual information",
        "with": "ring, and the positive",
        "without": "ring alone (definition 5.3)",
    }
    plot_by_candidates(axes, rows, labels)


ABOUT = About(
    where="definition 5.3, corollary 5.3.1",
    says="Annulus Discrimination, which divides by the background without the close "
    "neighbors (and so without the image itself), is a lower bound of the mutual "
    "information.",
    run="Worlds of ten places on a circle in which every expectation is a finite sum; "
    "negatives one or two places away from the positive, so that they are hard; the "
    "best critic.",
    refuted_if="A value above the mutual information.",
    sizes=SIZES,
    columns={
        "candidates K": "candidates",
        "truth, nats": "nats",
        "with the positive": "with",
        "without": "without",
    },
    correction=r"""
    Keep the positive among the candidates: divide by
    $e^{g_1} + \sum_{k\in B\setminus C} e^{g_k}$. Then
    $e^{g_1}/\frac1K\sum_k e^{g_k} \le K$ whatever the critic, and the argument for hard
    negatives applies. Without it nothing limits the ratio: let the critic grow by a
    constant on positives only, and the value grows by as much. The authors' later code
    keeps the positive; so does `inv.Annulus`.
    """,
)
