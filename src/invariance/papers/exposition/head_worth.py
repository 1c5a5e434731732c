"""What a projection head is worth: features below it, above it, and without one."""

from collections.abc import Mapping
from typing import Any

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import plot_bars
from .._small_runs import SMALLER, list_sizes, read_accuracy, score, train_small
from .._spread import Spread, compare

PRINTED = 6  # points that a head of two layers is worth


def measure(cell: Cell) -> Values:
    """The accuracy of h, and of z above it."""
    above: list[float] = []

    def read(epoch: int, learner: Any) -> Mapping[str, float]:
        if epoch == cell["epochs"]:
            above.append(score(cell, learner.online))
        return {}

    run = train_small(cell, head=cell["head"], each_epoch=read)
    return {"accuracy": read_accuracy(cell, run), "above": above[0]}


def judge(rows: Rows) -> Verdict:
    """Whether the two-layer head beats none, and h beats z."""
    by_head = rows.by("head", "accuracy")
    gain = compare(by_head["mlp2"], by_head["none"])
    two = rows.where(head="mlp2")
    below = compare(two["accuracy"], two["above"])
    shown = ", ".join(f"{Spread.of(a)} % ({head})" for head, a in by_head.items())
    because = (
        f"The accuracy of h, by head: {shown}. A head of two layers is worth {gain} "
        f"points (95 % interval {gain.low:.1f} to {gain.high:.1f}) over none. The "
        f"accuracy of h below it less that of z above it is {below} points."
    )
    if gain.is_above_zero and not gain.low <= PRINTED <= gain.high:
        return Verdict(
            "holds within limits",
            f"{because} That is not the {PRINTED} points printed.",
        )
    if gain.is_above_zero:
        return Verdict("holds", because)
    if gain.is_below_zero:
        return Verdict("does not hold", because)
    return Verdict("not decided", f"{because} What the head is worth is within chance.")


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by head, and of both sides of the head."""
    left, right = figure.subplots(1, 2)
    plot_bars(left, rows, x="head", y="accuracy")
    left.set(xlabel="head", ylabel="nearest neighbors in h, % right")
    headed = rows.where(head="mlp2")
    for place, values in enumerate((headed["accuracy"], headed["above"])):
        right.bar(place, Spread.of(values).mean, color="C1", alpha=0.5, width=0.7)
        right.plot([place] * len(values), values, "k.", markersize=4)
    right.set_xticks([0, 1], ["h, below the head", "z, above it"])
    right.set(xlabel="with a head of two layers", ylabel="nearest neighbors, % right")


ABOUT = About(
    where="section 10",
    says="A head of two layers improves the features below it by about "
    f"{PRINTED} points over no head.",
    run="SimCLR with no head, a linear one and one of two layers; features below "
    f"the head, and projections above it. {SMALLER}",
    refuted_if="Features that are worse with a head of two layers than without one.",
    sizes=list_sizes(head=("none", "linear", "mlp2"), tiny={"head": ("none", "mlp2")}),
    toy=EVERY_SIZE,
    columns={
        "head": "head",
        "h, %": "accuracy",
        "z, %": "above",
    },
)
