"""Donsker and Varadhan's bound with sample means in place of expectations."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...estimators import donsker_varadhan
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from ._known_pairs import WIDTH, average_batches

NATS = 2.5
LITTLE = 0.05  # nats by which a value may be above the truth and still be called close


def measure(cell: Cell) -> Values:
    """By how much the value of a batch is above its own mean log ratio."""

    def read(x: Tensor, y: Tensor, exact: Tensor) -> Mapping[str, Any]:
        return {"excess": donsker_varadhan(exact) - exact.diagonal().mean()}

    return average_batches(cell, NATS, read)


def judge(rows: Rows) -> Verdict:
    """Whether means of a sample leave it a bound."""
    excess = rows.spreads("n", "excess")
    few, many = min(excess), max(excess)
    because = (
        f"With the optimal critic and {NATS:g} nats, the value exceeds the information "
        f"by {excess[few]} nats on average with {few} pairs, and by {excess[many]} "
        f"with {many}."
    )
    if not any(spread.is_above_zero for spread in excess.values()):
        known = all(spread.high < LITTLE for spread in excess.values())
        return Verdict("holds" if known else "not decided", because)
    if excess[many].high < LITTLE:
        return Verdict(
            "holds within limits",
            f"{because} It is an estimate that is biased upward, not a bound.",
        )
    return Verdict("does not hold", because)


def draw(rows: Rows, figure: Figure) -> None:
    """The excess by the number of pairs."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="n", y="excess")
    axes.axhline(0, color="black", linewidth=1)
    axes.annotate("a bound stays below", (max(rows["n"]), -0.03), va="top", ha="right")
    axes.set(xscale="log", ylim=(-0.2, None), xlabel="pairs in the sample")
    axes.set(ylabel="value at the best critic - information, nats")


ABOUT = About(
    where="sections 3.2 and 3.3",
    says="Donsker and Varadhan's bound can be estimated with means over samples in "
    "place of its expectations, as MINE does.",
    run=f"The exact critic of {WIDTH}-dimensional Gaussians that share {NATS:g} nats; "
    "the second mean is over all pairs of strangers in the sample.",
    refuted_if="Averages above the information, beyond chance, even in the largest "
    "samples.",
    sizes=plan(
        tiny={"n": (4, 64), "batches": 40, "seeds": 2},
        quick={"n": (4, 8, 16, 64, 256), "batches": 300, "seeds": 5},
        full={"n": (4, 8, 16, 64, 256, 1024), "batches": 1000, "seeds": 10},
    ),
    columns={"pairs": "n", "above the information, nats": "excess"},
    correction=r"""
    With expectations, $\mathbb E_p[T] - \log\mathbb E_q[e^T] \le I$. With the mean
    $\hat Z$ of a sample, Jensen's inequality gives
    $\mathbb E\log\hat Z \le \log\mathbb E\hat Z = \log Z$, so
    $-\log\hat Z$ is too high on average, by about $\mathrm{Var}(\hat Z)/2Z^2$. At the
    optimal critic there is no slack to absorb that, and the average exceeds I. Bounds
    that are linear in the second mean, such as NWJ's, have no such bias.
    """,
)
