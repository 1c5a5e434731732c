"""With K instead of the number of negatives the ESS never reaches 1."""

import torch

from ...diagnostics import effective_sample_size
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_batches, plot_values

WIDTH = 16


def measure(cell: Cell) -> Values:
    """The ESS of equation 4 and with the number of negatives, rows alike or not."""
    n, generator = cell["n"], cell.generator()
    u = torch.randn(n, WIDTH, generator=generator, dtype=torch.double)
    if cell["rows"] == "alike":
        u = u[:1].repeat(n, 1)
    share = effective_sample_size(u, u, temperature=cell["temperature"])
    return {"printed": share * (n - 1) / n, "corrected": share}


def judge(rows: Rows) -> Verdict:
    """Equal weights are all the diversity there is: the ESS must be 1 there."""
    alike = rows.where(rows="alike")
    short = [1 - value for value in alike["printed"]]
    right = max(abs(1 - value) for value in alike["corrected"])
    smallest = min(alike["n"])
    most = max(alike.where(n=smallest)["printed"])
    if max(short) > 1e-6:
        return Verdict(
            "formula is wrong",
            f"With {smallest} identical rows, equation 4 gives {most:.3f}, the most it "
            "can give; with the number of negatives in place of K the ESS is 1 to "
            f"within {right:.0e}.",
        )
    return Verdict(
        "holds", f"Rows that are all alike read {min(alike['printed']):.3f}."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """The highest value that each form can give, by batch size."""
    axes, alike = figure.subplots(), rows.where(rows="alike")
    lines = {
        "corrected": "divided by the K - 1 negatives",
        "printed": "equation 4, divided by K",
    }
    plot_values(axes, alike, x="n", lines=lines)
    mark_batches(axes, alike)
    axes.set(ylabel="ESS of equal weights", ylim=(0, 1.05))


ABOUT = About(
    where="equation 4",
    says="The effective sample size 1 / (K sum of squared weights) ranges from 1/K to "
    "1.",
    run="The weights of K identical rows, which are as even as weights can be, and of "
    "random rows, by equation 4 and with the number of negatives in place of K.",
    refuted_if="Equal weights whose effective sample size is not 1.",
    sizes=plan(
        rows=("alike", "random"),
        temperature=(0.1,),
        tiny={"n": (2, 8), "seeds": 1},
        quick={"n": (2, 4, 8, 16, 32, 64, 128), "seeds": 3},
        full={"n": (2, 4, 8, 16, 32, 64, 128, 256, 512), "seeds": 10},
    ),
    columns={
        "rows": "rows",
        "batch size": "n",
        "equation 4": "printed",
        "with K - 1": "corrected",
    },
    correction=r"""
    The weights run over the $K - 1$ rows $j \ne i$ and sum to 1, so
    $\frac1{K-1} \le \sum_j w_j^2 \le 1$, with equality on the left for equal weights.
    Hence $1/(K\sum_j w_j^2)$ lies in $[\frac1K, \frac{K-1}K]$. With the number of
    negatives in front, $1/((K-1)\sum_j w_j^2)$ lies in $[\frac1{K-1}, 1]$. At batch
    512 this is a detail; at batch 4 a target of 0.8 could never be reached.
    """,
)
