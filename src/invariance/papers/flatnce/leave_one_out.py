"""The value without the positive is no lower bound: it comes out too high."""

import math

import torch

from ...estimators import correlated_gaussian, info_nce
from ...estimators import leave_one_out as read_leave_one_out
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_batches, plot_lines
from ._made_scores import exact_scores

NATS, WIDTH = 2.5, 4
PAIRS = correlated_gaussian(WIDTH, nats=NATS)
WAYS = {"without": "positive left out", "with": "positive kept (InfoNCE)"}


def measure(cell: Cell) -> Values:
    """The mean value over many batches, at the best critic there is."""
    read = read_leave_one_out if cell["positive"] == "without" else info_nce
    generator, n = cell.generator(), cell["n"]
    values = [
        read(exact_scores(PAIRS, n, generator)).item()
        for _ in range(math.ceil(cell["rows"] / n))
    ]
    return {"nats": torch.tensor(values).mean().item()}


def judge(rows: Rows) -> Verdict:
    """A lower bound may not be above the truth by more than chance explains."""
    spreads = rows.where(positive="without").spreads("n", "nats")
    over = {n: spread for n, spread in spreads.items() if spread.low > NATS}
    smallest = min(spreads)
    kept = rows.where(positive="with", n=smallest)["nats"]
    if over:
        worst = max(over, key=lambda n: over[n].mean)
        return Verdict(
            "does not hold",
            f"Of {NATS:g} nats it reads {over[worst]} with batches of {worst}, and it "
            f"reads too much at {len(over)} of {len(spreads)} batch sizes. With the "
            f"positive in the sum it reads {sum(kept) / len(kept):.2f} at batch "
            f"{smallest}.",
        )
    if any(spread.n < 2 for spread in spreads.values()):
        return Verdict("not decided", "One seed does not show whether it is too high.")
    highest = max(spread.mean for spread in spreads.values())
    sentence = f"Of {NATS:g} nats it reads {highest:.2f} on average at most"
    if highest > NATS:
        return Verdict("not decided", f"{sentence}, which chance may explain.")
    return Verdict("holds", f"{sentence}.")


def draw(rows: Rows, figure: Figure) -> None:
    """Both values by batch size, around the truth."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="n", y="nats", by="positive", labels=WAYS)
    axes.axhline(NATS, color="black", linewidth=1)
    axes.annotate("the mutual information", (rows[0]["n"], NATS), va="bottom")
    mark_batches(axes, rows)
    axes.set(ylabel="value, nats")


ABOUT = About(
    where="footnote 7",
    says="Equation 3, which leaves the positive out of the sum, also lower-bounds the "
    "mutual information.",
    run=f"{WIDTH}-dimensional Gaussians that share {NATS:g} nats, the exact critic, "
    "batches of 4 to 256 (1,024 at full size). Equation 3 itself is always 1; its "
    "information is read as minus the log of the mean over strangers of exp(score - "
    "score of the partner).",
    refuted_if="An average above the true information beyond chance.",
    sizes=plan(
        positive=WAYS,
        tiny={"n": (4, 16), "rows": 400, "seeds": 2},
        quick={"n": (4, 8, 16, 64, 256), "rows": 2048, "seeds": 5},
        full={"n": (4, 8, 16, 64, 256, 1024), "rows": 40960, "seeds": 10},
    ),
    columns={"positive": "positive", "batch size": "n", "nats": "nats"},
    correction=r"""
    With the partition $\hat Z = \frac1{K-1}\sum_{j\ne i} e^{g_{ij}}$ the value is
    $g_{ii} - \log\hat Z$. The logarithm is concave, so
    $\mathbb E \log\hat Z \le \log \mathbb E\hat Z = \log Z$ (Jensen), and on average
    the value is at least $\mathbb E[g_{ii} - \log Z]$, which is $I(X;Y)$ itself at the
    best critic. It comes out too high, most of all for small K. The proof that works
    for InfoNCE needs the positive among the candidates: only then do all K of them
    change places freely. What FlatNCE may report is the InfoNCE value of its scores,
    $\log K - L$ with the positive in the sum.
    """,
)
