"""InfoNCE over all ordered pairs of M views: what it is a bound of."""

import itertools
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ...estimators import gaussian, info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_values
from .._spread import Spread, compare
from ._known_pairs import WIDTH, exact_critic, show_one_seed

CLEAREST, CLEARER = 0.95, 0.05  # how much of a sample is in the first view, and less


def measure(cell: Cell) -> Values:
    """The bound, the mean information of pairs, and of a view with all others."""
    m, n, generator = cell["views"], cell["n"], cell.generator()
    share = torch.tensor([CLEAREST - CLEARER * k for k in range(m)]).double()
    covariance = share[:, None] * share
    covariance.fill_diagonal_(1.0)
    pairs = list(itertools.permutations(range(m), 2))
    bounds, own_bounds = [], []
    for _ in range(cell["batches"]):
        sample = torch.randn(1, n, WIDTH, generator=generator, dtype=torch.float64)
        noise = torch.randn(m, n, WIDTH, generator=generator, dtype=torch.float64)
        z = share[:, None, None] * sample + (1 - share**2).sqrt()[:, None, None] * noise
        scores = {
            (i, j): exact_critic(covariance[i, j].item())(z[i], z[j]) for i, j in pairs
        }
        bounds += [info_nce(s) for s in scores.values()]
        own_bounds.append(compare_own_views(scores, m))
    every = [WIDTH * gaussian(c, x_width=1).nats for c in put_each_first(covariance)]
    each = [
        WIDTH * gaussian(covariance[[i, j]][:, [i, j]], x_width=1).nats
        for i, j in pairs
    ]
    return {
        "bound": float(torch.stack(bounds).mean()),
        "own": sum(own_bounds) / len(own_bounds),
        "nats_of_pairs": sum(each) / len(each),
        "nats_of_all": sum(every) / len(every),
    }


def put_each_first(covariance: Tensor) -> list[Tensor]:
    """The covariance with each view in turn as the first."""
    m = len(covariance)
    orders = [[i, *(j for j in range(m) if j != i)] for i in range(m)]
    return [covariance[order][:, order] for order in orders]


def compare_own_views(scores: Mapping[tuple[int, int], Tensor], m: int) -> float:
    """The formula read literally: candidates are the other views of the sample."""
    values = []
    for i in range(m):
        mine = torch.stack([scores[i, j].diagonal() for j in range(m) if j != i], 1)
        values.append(math.log(m - 1) + float(mine.log_softmax(1).mean()))
    return sum(values) / m


def judge(rows: Rows) -> Verdict:
    """Below the mean information of pairs, and how near."""
    if unknown := show_one_seed(rows):
        return unknown
    sentences, above, over, idle = [], [], [], []
    for views in dict.fromkeys(rows["views"]):
        part = rows.where(views=views)
        excess = compare(part["bound"], part["nats_of_pairs"])
        above.append(excess.is_above_zero)
        over.append(excess.mean > 0)
        idle.append(Spread.of(part["own"]).high < 0.01)
        sentences.append(
            f"{Spread.of(part['bound'])} of {part[0]['nats_of_pairs']:.2f} nats with "
            f"{views} views"
        )
    most = rows.where(views=max(rows["views"]))
    because = f"The bound reads {', '.join(sentences)}."
    if any(above):
        return Verdict("does not hold", because)
    if any(over):
        return Verdict("not decided", because)
    if all(idle):
        return Verdict(
            "holds within limits",
            f"{because} That is the mean over pairs; with {most[0]['views']} views, "
            f"one view and all the others together share {most[0]['nats_of_all']:.2f} "
            "nats. And negatives must be views of other samples: if x_k is a view of "
            "the same sample, as the printed index suggests, the bound reads "
            f"{Spread.of(most['own'])}.",
        )
    return Verdict("holds", because)


def draw(rows: Rows, figure: Figure) -> None:
    """The bound and both kinds of information, by the number of views."""
    axes = figure.subplots()
    lines = {
        "nats_of_all": "information of a view and all others",
        "nats_of_pairs": "mean information of pairs",
        "bound": "the bound, negatives of other samples",
        "own": "views of the same sample as negatives",
    }
    plot_values(axes, rows, x="views", lines=lines)
    axes.set(xlabel="views M", ylabel="nats", xticks=sorted(set(rows["views"])))


ABOUT = About(
    where="theorem 6",
    says="InfoNCE averaged over all ordered pairs of M views is still a lower bound.",
    run=f"M views of Gaussian samples in {WIDTH} dimensions, each view noisier than "
    "the one before, exact critics, batches of 256.",
    refuted_if="A value above the mean information of the pairs, beyond chance.",
    sizes=plan(
        tiny={"views": (2, 3), "n": 32, "batches": 10, "seeds": 2},
        quick={"views": (2, 3, 4, 6), "n": 256, "batches": 30, "seeds": 5},
        full={"views": (2, 3, 4, 6, 8), "n": 1024, "batches": 60, "seeds": 10},
    ),
    columns={
        "views": "views",
        "bound, nats": "bound",
        "information of pairs": "nats_of_pairs",
        "of a view and all others": "nats_of_all",
        "own views as negatives": "own",
    },
    correction=r"""
    Each ordered pair has a bound of its own, $I(x_i; x_j) \ge \log K - L_{ij}$, and
    their mean is a bound on the mean information of pairs. It says nothing about what a
    view shares with all the others together, which is more. The printed sum over $x_k$
    has no sample index: the proof needs candidates that are independent of $x_i$, so
    they are views of **other** samples.
    """,
)
