"""DHEL uses more dimensions of the embedding space than InfoNCE."""

from ... import effective_rank, load
from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import plot_bars
from .._parts import expect_above, judge_parts
from .._small_runs import (
    SMALLER,
    encode_codes,
    list_sizes,
    read_accuracy,
    read_last,
    train_small,
)
from .._spread import compare

METHODS = {"InfoNCE": "info_nce", "DHEL": "dhel"}


def measure(cell: Cell) -> Values:
    """Effective rank of projections and of features, and accuracy."""
    run = train_small(cell, method=METHODS[cell["objective"]], temperature=0.3)
    _, (h, _) = encode_codes(cell, load(run.folder))
    return {
        "rank_z": read_last(run, "effective_rank"),
        "rank_h": effective_rank(h),
        "accuracy": read_accuracy(cell, run),
    }


def judge(rows: Rows) -> Verdict:
    """DHEL's projections, and its features, must have the larger rank."""
    dhel, usual = rows.where(objective="DHEL"), rows.where(objective="InfoNCE")
    z = compare(dhel["rank_z"], usual["rank_z"])
    h = compare(dhel["rank_h"], usual["rank_h"])
    numbers = (
        f"The effective rank with DHEL less that with InfoNCE is {z} for projections "
        f"(95 % interval {z.low:.1f} to {z.high:.1f}) and {h} for features "
        f"({h.low:.1f} to {h.high:.1f})."
    )
    return judge_parts(
        numbers,
        expect_above("projections have the larger rank", z),
        expect_above("features have the larger rank", h),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Ranks of z and h for each objective."""
    left, right = figure.subplots(1, 2)
    plot_bars(left, rows, x="objective", y="rank_z")
    plot_bars(right, rows, x="objective", y="rank_h")
    left.set(ylabel="effective rank", title="projections z, a batch")
    right.set(title="features h, test images")


ABOUT = About(
    where="key results",
    says="DHEL uses more dimensions of the representation space than InfoNCE, which "
    "mitigates dimensional collapse.",
    run="InfoNCE and DHEL at temperature 0.3, trained in the same way; the effective "
    "rank of projections and of features, since the summary does not say which is "
    f"meant. {SMALLER}",
    refuted_if="Neither rank is shown to be larger, and one is smaller, beyond chance.",
    sizes=list_sizes(objective=METHODS, seeds=4),
    toy=EVERY_SIZE,
    columns={
        "objective": "objective",
        "rank of z": "rank_z",
        "rank of h": "rank_h",
        "kNN accuracy, %": "accuracy",
    },
)
