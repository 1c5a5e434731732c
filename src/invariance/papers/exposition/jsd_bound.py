"""The Jensen-Shannon bound on information: true, but it says nothing."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...estimators import jensen_shannon, nwj, nwj_of_log_ratio
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_values
from .._spread import Spread
from ._known_pairs import WIDTH, average_batches, show_one_seed


def measure(cell: Cell) -> Values:
    """The printed bound at its best critic, and what else that critic gives."""

    def read(x: Tensor, y: Tensor, exact: Tensor) -> Mapping[str, Any]:
        return {
            "printed": jensen_shannon(exact),
            "nwj": nwj_of_log_ratio(exact),
            "nwj_without_one": nwj(exact),
        }

    return average_batches(cell, cell["nats"], read)


def judge(rows: Rows) -> Verdict:
    """Whether the printed bound is below the information, and above zero."""
    if unknown := show_one_seed(rows):
        return unknown
    printed, right = rows.spreads("nats", "printed"), rows.spreads("nats", "nwj")
    most = max(printed)
    if above := [nats for nats, spread in printed.items() if spread.low > nats]:
        return Verdict(
            "does not hold",
            f"Of {above[0]:g} nats the printed bound reads {printed[above[0]]}.",
        )
    shown = f"Of {most:g} nats the printed bound reads {printed[most]} at its best"
    if all(spread.high < 0 for spread in printed.values()):
        without = Spread.of(rows.where(nats=most)["nwj_without_one"])
        return Verdict(
            "holds within limits",
            f"{shown}. It is below 0 for every amount of information, so it never says "
            f"more than I >= 0. With the same critic, NWJ reads {right[most]} from "
            f"T + 1, and {without} from T.",
        )
    tight = all(spread.high > 0 for spread in printed.values())
    return Verdict("holds" if tight else "not decided", f"{shown}.")


def draw(rows: Rows, figure: Figure) -> None:
    """What each reads, against what there is."""
    axes = figure.subplots()
    lines = {
        "nwj": "NWJ of T + 1",
        "nwj_without_one": "NWJ of T",
        "printed": "Jensen-Shannon, as printed",
    }
    plot_values(axes, rows, x="nats", lines=lines)
    ends = [0, max(rows["nats"])]
    axes.plot(ends, ends, "k:", linewidth=3, label="the information")
    axes.axhline(0, color="gray", linewidth=1, linestyle=":")
    axes.legend(frameon=False)
    axes.set(xlabel="mutual information, nats", ylabel="value at the best critic, nats")


ABOUT = About(
    where="section 3.4",
    says=r"$I \ge \mathbb E_p\log\sigma(T) + \mathbb E_q\log(1-\sigma(T))$ is an "
    "alternative bound on the information.",
    run=f"The exact critic of {WIDTH}-dimensional Gaussians that share 0.25 to 3 nats, "
    "in batches of 512.",
    refuted_if="A value above the information.",
    sizes=plan(
        tiny={"nats": (0.5, 2.0), "n": 64, "batches": 20, "seeds": 2},
        quick={"nats": (0.25, 0.5, 1.0, 2.0, 3.0), "n": 512, "batches": 40, "seeds": 5},
        full={
            "nats": (0.25, 0.5, 1.0, 2.0, 3.0, 4.0),
            "n": 2048,
            "batches": 60,
            "seeds": 10,
        },
    ),
    columns={
        "nats": "nats",
        "as printed": "printed",
        "NWJ of T + 1": "nwj",
        "NWJ of T": "nwj_without_one",
    },
    correction=r"""
    Both terms are logarithms of probabilities, so the printed value is never above 0,
    while $I \ge 0$: the inequality is true and empty. Its largest value is
    $2\,\mathrm{JSD} - \log 4$, which stays between $-\log 4$ and 0 however large I is.
    The critic is useful nevertheless: the best T is $\log r$. Any bound that takes a
    log ratio may read it, such as Nguyen, Wainwright and Jordan's
    $I \ge \mathbb E_p[f] - \mathbb E_q[e^{f-1}]$, whose best f is $1 + \log r$. So the
    T of a Jensen-Shannon critic enters as $f = T + 1$:
    $I \ge 1 + \mathbb E_p[T] - \mathbb E_q[e^T]$. Entered as $f = T$ it loses 1/e nats,
    as then $\mathbb E_q[e^{T-1}] = 1/e$.
    """,
)
