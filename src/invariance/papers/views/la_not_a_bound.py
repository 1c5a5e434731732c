"""Local Aggregation is above Ball Discrimination, not below it, and not a bound."""

import torch

from .._claim import About, Cell, Figure, Rows, Values, Verdict, grid
from .._figures import plot_values
from ._small_world import make_world

BALL = 3  # steps from an image to the farthest of its background


def measure(cell: Cell) -> Values:
    """Local Aggregation and Ball Discrimination of the same images, exactly."""
    world = make_world(cell.generator())
    close, ball = world.distance <= cell["close"], world.distance <= BALL
    scores = world.log_ratio.T  # a row per x, all images as candidates

    def sum_over(rows: torch.Tensor) -> torch.Tensor:
        """Of e^score, by image (row) and x (column)."""
        inside = rows[:, None, :] & torch.ones_like(scores, dtype=torch.bool)
        return scores.masked_fill(~inside, -torch.inf).logsumexp(2)

    background = sum_over(ball) - ball.sum(1, keepdim=True).log()
    discrimination = world.log_ratio - background
    aggregation = sum_over(close & ball) - background
    return {
        "nats": world.nats,
        "ball": (world.joint * discrimination).sum().item(),
        "la": (world.joint * aggregation).sum().item(),
        "least_gain": (aggregation - discrimination).min().item(),
    }


def judge(rows: Rows) -> Verdict:
    """The corollary: Local Aggregation <= Ball Discrimination <= the truth."""
    wide = rows.where(close=max(rows["close"]))
    gain = min(row["la"] - row["ball"] for row in wide)
    over = max(row["la"] - row["nats"] for row in rows)
    if gain <= 0 and over <= 0:
        return Verdict(
            "holds",
            "Local Aggregation is not above Ball Discrimination, nor above the truth.",
        )
    always = min(wide["least_gain"]) >= 0
    return Verdict(
        "formula is wrong",
        f"With neighbors up to {max(rows['close'])} steps away Local Aggregation is "
        f"above Ball Discrimination by {gain:.2f} nats or more"
        + (", for every image, " if always else ", ")
        + (
            f"and above the mutual information by up to {over:.2f}."
            if over > 0
            else "though not above the mutual information here."
        ),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Values by the width of the close set, against the truth."""
    axes = figure.subplots()
    labels = {
        "nats": "mutual information",
        "ball": "Ball Discrimination",
        "la": "Local Aggregation",
    }
    plot_values(axes, rows, x="close", lines=labels)
    axes.set_xticks(sorted(set(rows["close"])))
    axes.set(xlabel="steps to the farthest close neighbor", ylabel="value, nats")


ABOUT = About(
    where="corollary 5.4.1",
    says="Whatever its close neighbors, Local Aggregation is a lower bound of the "
    "mutual information, and a looser one than Ball Discrimination.",
    run="Worlds of ten places on a circle in which every expectation is a finite sum. "
    f"The background is all places up to {BALL} steps away from an image; its close "
    "neighbors are those up to 0 (the image alone), 1 or 2 steps away. The best "
    "critic; log |B| is added to both, as in the proof of corollary 5.3.1, since "
    "without it neither can be above 0.",
    refuted_if="A value above that of Ball Discrimination, or above the truth.",
    sizes={
        "tiny": grid(close=(0, 1), seed=range(2)),
        "quick": grid(close=(0, 1, 2), seed=range(10)),
        "full": grid(close=(0, 1, 2), seed=range(100)),
    },
    columns={
        "steps to close neighbors": "close",
        "truth, nats": "nats",
        "Ball Discrimination": "ball",
        "Local Aggregation": "la",
    },
    correction=r"""
    The close set contains the image, so
    $\sum_{k\in C\cap B} e^{s_k} \ge e^{s_i}$ and
    $$\log\frac{\sum_{k\in C\cap B} e^{s_k}}{\sum_{k\in B} e^{s_k}} \ge
    \log\frac{e^{s_i}}{\sum_{k\in B} e^{s_k}}:$$
    Local Aggregation is at least Ball Discrimination, for every image and critic. The
    printed proof divides by $|C\cap B|$ and calls the two proportional; the step that
    follows (noise lowers a correlation) is then about a mean, not a sum. What the
    close set adds need not be information about x at all: take C = B, and the value
    (with log |B|, on the scale of nats) is log |B| for any critic. Local Aggregation is
    an objective, not a bound.
    """,
)
