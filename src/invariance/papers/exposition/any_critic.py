"""log K - L is at most the mutual information, whatever the critic.

The exposition proves the bound for the optimal critic, by steps that are not valid (see
printed_proof). It holds for any critic; the correction has a proof.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...estimators import info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from ._known_pairs import WIDTH, average_batches, show_one_seed

NATS = 2.0
CRITICS = ("exact", "half as steep", "twice as steep", "cosine", "noise")


def measure(cell: Cell) -> Values:
    """The mean of the bound over many batches."""
    dice = cell.generator(stream=1)

    def read(x: Tensor, y: Tensor, exact: Tensor) -> Mapping[str, Any]:
        critics = {
            "exact": exact,
            "half as steep": exact / 2,
            "twice as steep": 2 * exact,
            "cosine": normalize(x, dim=1) @ normalize(y, dim=1).mT / 0.5,
            "noise": torch.randn(exact.shape, generator=dice, dtype=exact.dtype),
        }
        return {"bound": info_nce(critics[cell["critic"]])}

    return average_batches(cell, NATS, read)


def judge(rows: Rows) -> Verdict:
    """No critic may come out above the truth by more than chance explains."""
    if unknown := show_one_seed(rows):
        return unknown
    largest = max(rows["n"])
    spreads = {
        (critic, n): spread
        for critic in dict.fromkeys(rows["critic"])
        for n, spread in rows.where(critic=critic).spreads("n", "bound").items()
    }
    (critic, n), worst = max(spreads.items(), key=lambda entry: entry[1].low)
    if worst.low > NATS:
        return Verdict(
            "does not hold",
            f"The critic '{critic}' reads {worst} nats at K = {n}; there are only "
            f"{NATS:g}.",
        )
    (critic, n), highest = max(spreads.items(), key=lambda entry: entry[1].mean)
    if highest.mean > NATS:
        return Verdict(
            "not decided",
            f"The critic '{critic}' reads {highest} nats at K = {n}, which chance may "
            f"explain: there are {NATS:g}.",
        )
    best = spreads["exact", largest]
    count = len(set(rows["critic"]))
    return Verdict(
        "holds",
        f"Of {NATS:g} nats the exact critic reads {best} at K = {largest}, and at no K "
        f"does any of the {count} critics read more than there is.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """The bound of each critic by batch size."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="n", y="bound", by="critic")
    axes.axhline(NATS, color="black", linewidth=1)
    axes.annotate("the mutual information", (rows[0]["n"], NATS), va="bottom")
    axes.legend(frameon=False, title="critic", ncols=2, loc=(0.3, 0.2))
    axes.set(xscale="log", xlabel="candidates K", ylabel="log K - L, nats")


ABOUT = About(
    where="theorems 2 and 4",
    says="The mutual information of the views is at least log K minus the loss.",
    run=f"{WIDTH}-dimensional Gaussians that share {NATS:g} nats, five critics from "
    "the exact one to pure noise, batches of 4 to 256 (1,024 at full size).",
    refuted_if="A critic whose average exceeds the true information beyond chance.",
    sizes=plan(
        critic=CRITICS,
        tiny={"n": (4, 16), "batches": 20, "seeds": 2},
        quick={"n": (4, 16, 64, 256), "batches": 100, "seeds": 5},
        full={"n": (4, 16, 64, 256, 1024), "batches": 400, "seeds": 10},
    ),
    columns={"critic": "critic", "K": "n", "log K - L, nats": "bound"},
    correction=r"""
    The theorem is right, and needs less than it says: the critic need not be the
    optimal one. The printed proof is not valid (see printed_proof). This one is: for
    any function $f(c, x_1, \dots, x_K)$,
    $I \ge 1 + \mathbb E_p[f] - \mathbb E_q[e^f]$, where $x_1$ is the partner of c under
    p and a stranger under q, and the others are strangers under both. Take
    $f = g(c, x_1) - \log\frac1K\sum_j e^{g(c, x_j)}$ with any critic g. Under q all K
    candidates are strangers and may change places, so
    $\mathbb E_q[e^f] = \mathbb E_q\big[K e^{g(c,x_1)}/\sum_j e^{g(c,x_j)}\big]
    = \mathbb E_q\big[\sum_i e^{g(c,x_i)}/\sum_j e^{g(c,x_j)}\big] = 1$.
    What is left is $I \ge \mathbb E_p[f] = \log K - L$. Nothing was asked of g.
    """,
)
