"""The Fenchel-Legendre bound as printed is two nats off, and its equality misplaced."""

import torch
from torch import Tensor

from ...estimators import correlated_gaussian, flo, info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_values
from .._spread import Spread
from ._made_scores import exact_scores

WIDTH, N = 4, 128


def print_flo(scores: Tensor, u: Tensor) -> Tensor:
    """Minus equation 24, as equation 25 has it."""
    n = len(scores)
    ratios = (scores - scores.diagonal()[:, None]).exp()
    strangers = (ratios.sum(1) - ratios.diagonal()) / (n - 1)
    return -((u + (-u).exp() * strangers).mean() + 1)


def right_side(means: Tensor, u: Tensor) -> Tensor:
    """Of equation 22, whose sum divided by K is ``means``."""
    return (1 - u - (-u).exp() * means).mean()


def measure(cell: Cell) -> Values:
    """At the best critic and its best dual: both forms, and both ends of lemma S3."""
    pairs = correlated_gaussian(WIDTH, nats=cell["nats"])
    generator = cell.generator()
    values: dict[str, list[Tensor]] = {}
    for _ in range(cell["batches"]):
        scores = exact_scores(pairs, N, generator)
        pointwise = scores.diagonal()  # minus the best u, as the best critic has Z = 1
        means = (scores - pointwise[:, None]).exp().mean(1)
        left_side = info_nce(scores)  # of equation 22
        for name, value in {
            "printed": print_flo(scores, -pointwise),
            "corrected": flo(scores, -pointwise),
            "gap_at_mean": left_side - right_side(means, means),
            "gap_at_log": left_side - right_side(means, means.log()),
        }.items():
            values.setdefault(name, []).append(value)
    return {name: torch.stack(each).mean().item() for name, each in values.items()}


def judge(rows: Rows) -> Verdict:
    """Which of the two forms has the truth within its interval."""
    wrong = [
        Spread.of([row["printed"] - row["nats"] for row in rows.where(nats=nats)])
        for nats in dict.fromkeys(rows["nats"])
    ]
    right = [abs(row["corrected"] - row["nats"]) for row in rows]
    off = sum(spread.mean for spread in wrong) / len(wrong)
    at_mean, at_log = min(rows["gap_at_mean"]), max(map(abs, rows["gap_at_log"]))
    both = (
        f"Equation 25 is off by {off:+.2f} nats on average, the corrected form by "
        f"{max(right):.2f} at most. The two sides of lemma S3 are at least "
        f"{at_mean:.2g} apart at the mean, and at most {at_log:.0e} at its logarithm."
    )
    misplaced = at_mean > 1e-3 > at_log
    if misplaced and all(abs(spread.mean) > 1 for spread in wrong):
        return Verdict("formula is wrong", both)
    if max(abs(spread.mean) for spread in wrong) < 0.2 and at_mean < 1e-3:
        return Verdict("holds", both)
    return Verdict("not decided", both)


def draw(rows: Rows, figure: Figure) -> None:
    """Both forms against the truth, and the two sides of the lemma."""
    left, right = figure.subplots(1, 2)
    truth = list(dict.fromkeys(rows["nats"]))
    left.plot(truth, truth, "k:", linewidth=3, label="the truth")
    lines = {"corrected": "corrected", "printed": "equation 25"}
    plot_values(left, rows, x="nats", lines=lines)
    left.set(xlabel="mutual information, nats", ylabel="value, nats")
    lines = {
        "gap_at_log": "u = log of the mean",
        "gap_at_mean": "u = the mean, as printed",
    }
    plot_values(right, rows, x="nats", lines=lines)
    right.legend(frameon=False, title="lemma S3", loc=(0.25, 0.1))
    right.set_yscale("symlog", linthresh=1)
    right.set(xlabel="mutual information, nats", ylabel="left less right side, nats")


ABOUT = About(
    where="equations 22, 24 and 25",
    says="The mutual information is minus the least value of E[u + exp(-u + g' - g)] + "
    "1, and equation 22 is an equality when u is the mean of exp(g' - g).",
    run=f"{WIDTH}-dimensional Gaussians with 0.5 to 4 nats, the exact critic and its "
    f"best dual u, batches of {N}: the value of equation 25 as printed and corrected, "
    "and both sides of equation 22 at the mean and at its logarithm.",
    refuted_if="Values of equation 25 that are not the true information, or sides of "
    "equation 22 that differ where they should be equal.",
    sizes=plan(
        tiny={"nats": (1.0,), "batches": 5, "seeds": 2},
        quick={"nats": (0.5, 1.0, 2.0, 3.0, 4.0), "batches": 40, "seeds": 5},
        full={"nats": (0.5, 1.0, 2.0, 3.0, 4.0), "batches": 400, "seeds": 10},
    ),
    columns={
        "true nats": "nats",
        "equation 25": "printed",
        "corrected": "corrected",
        "gap of equation 22 at the mean": "gap_at_mean",
        "at its logarithm": "gap_at_log",
    },
    correction=r"""
    For $t > 0$ and any $u$, $-\log t \ge 1 - u - t e^{-u}$: the right side is concave
    in $u$ with derivative $-1 + t e^{-u}$, which is 0 at $u = \log t$, where both sides
    are $-\log t$. Put $t = \frac1K\sum_j e^{g_{ij} - g_{ii}}$, and equation 22 follows,
    with equality at $u = \log t$, not at $t$. Put $t = \mathbb E_{y'} e^{g' - g}$ and
    take the mean over $p(x, y)$, and
    $$I(X;Y) = 1 - \min_{u, g}\; \mathbb E\big[u + e^{-u + g' - g}\big].$$
    Equations 24 and 25 put the 1 inside and then negate everything, which is
    $-1 - \min \mathbb E[\cdot]$: two nats too low.
    """,
)
