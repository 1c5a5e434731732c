"""log K - L is at most the mutual information, whatever the critic.

The exposition proves the bound for the optimal critic, by steps that are not valid. It
holds for any critic, by another proof (see the correction).
"""

import math
from collections.abc import Mapping
from typing import Any

import torch

from ...estimators import correlated_gaussian
from .._claim import Cell, Claim, Figure, Rows, Verdict, grid
from .._figures import plot_lines

NATS, WIDTH = 2.0, 4
PAIRS = correlated_gaussian(WIDTH, nats=NATS)
CRITICS = ("exact", "half as steep", "twice as steep", "cosine", "noise")


def score(critic: str, x: torch.Tensor, y: torch.Tensor, noise: torch.Tensor):
    """The scores of all pairs."""
    n = len(x)
    exact = PAIRS.log_ratio(x.repeat_interleave(n, 0), y.repeat(n, 1)).view(n, n)
    unit = torch.nn.functional.normalize
    return {
        "exact": exact,
        "half as steep": exact / 2,
        "twice as steep": 2 * exact,
        "cosine": unit(x, dim=1) @ unit(y, dim=1).mT / 0.5,
        "noise": noise,
    }[critic]


def measure(cell: Cell) -> Mapping[str, Any]:
    """The mean of the bound over many batches."""
    generator, n = cell.generator(), cell["n"]
    values = []
    for _ in range(cell["batches"]):
        x, y = PAIRS.sample(n, generator=generator)
        scores = score(cell["critic"], x, y, torch.randn(n, n, generator=generator))
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(n))
        values.append(math.log(n) - loss.item())
    return {"bound": sum(values) / len(values)}


def judge(rows: Rows) -> Verdict:
    """No critic may come out above the truth by more than chance explains."""
    highest = {
        key: max(s.low for s in rows.where(critic=key).spreads("n", "bound").values())
        for key in dict.fromkeys(rows["critic"])
    }
    worst = max(highest, key=lambda key: highest[key])
    best = max(rows.where(critic="exact")["bound"])
    if highest[worst] > NATS:
        return Verdict(
            "does not hold",
            f"The critic '{worst}' reads at least {highest[worst]:.2f} nats of "
            f"{NATS:g}.",
        )
    return Verdict(
        "holds",
        f"Of {NATS:g} nats, no critic reads more: the exact one {best:.2f} with the "
        f"largest batch, and all {len(highest)} stay below at every batch size.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """The bound of each critic by batch size."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="n", y="bound", by="critic")
    axes.axhline(NATS, color="black", linewidth=1)
    axes.annotate("the mutual information", (rows[0]["n"], NATS), va="bottom")
    axes.set(xscale="log", xlabel="batch size K", ylabel="log K - L, nats")


def cells(seeds: int, sizes: tuple[int, ...], batches: int) -> list[dict[str, Any]]:
    return grid(critic=CRITICS, n=sizes, batches=(batches,), seed=range(seeds))


CLAIM = Claim(
    name="any_critic",
    paper="exposition",
    where="theorems 2 and 4",
    says="The mutual information of the views is at least log K minus the loss.",
    run=f"{WIDTH}-dimensional Gaussians that share {NATS:g} nats, five critics from "
    "the exact one to pure noise, batches of 4 to 256.",
    refuted_if="A critic whose average is above the true information beyond chance.",
    sizes={
        "tiny": cells(2, (4, 16), 20),
        "quick": cells(5, (4, 16, 64, 256), 100),
        "full": cells(10, (4, 16, 64, 256, 1024), 400),
    },
    measure=measure,
    judge=judge,
    draw=draw,
    columns={"critic": "critic", "batch size": "n", "log K - L, nats": "bound"},
    correction=r"""
    The printed proof goes through $L = -\log \mathbb E[p]$, which is false, as
    $L = -\mathbb E \log p$, and its ninth step derives an upper bound and calls it a
    lower one. A valid proof: for any critic $g$ and a batch of K, take the bound
    $I \ge 1 + \mathbb E_p[f] - \mathbb E_q[e^f]$ with
    $f = g(x, y_1) - \log\frac1K\sum_j e^{g(x, y_j)}$. Under q all K candidates are
    exchangeable, so $\mathbb E_q[e^f] = 1$, and what is left is
    $\mathbb E_p[f] = \log K - L$. Nothing was asked of g.
    """,
)
