"""Is InfoNCE without its positive unstable where FlatNCE is not?

Both have the same gradient. What may differ is how they are written: exponentials that
are summed as they are overflow, a log-sum-exp does not.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...estimators import flat_nce_loss, leave_one_out
from .._claim import Cell, Claim, Figure, Rows, Verdict, grid
from .._figures import plot_lines
from ._made_scores import draw_scores, gradient, relative_error

N, BAD = 32, 0.1
PRECISIONS = ("float16", "bfloat16", "float32")
WAYS = {
    "drop_exp": "term-dropping, sum of exp",
    "drop_lse": "term-dropping, log-sum-exp",
    "flat_exp": "FlatNCE, equation 3",
    "flat_lse": "FlatNCE, algorithm S1",
}


def sum_differences(scores: Tensor) -> Tensor:
    """The sum in equation 3, exponentials taken as they are."""
    differences = scores - scores.diagonal()[:, None]
    strangers = ~torch.eye(len(scores), dtype=torch.bool)
    return (differences.exp() * strangers).sum(1)


def divide_by_constant(scores: Tensor) -> Tensor:
    """Equation 3 as printed."""
    total = sum_differences(scores)
    return (total / total.detach()).mean()


LOSSES = {
    "drop_exp": lambda scores: sum_differences(scores).log().mean(),
    "drop_lse": lambda scores: -leave_one_out(scores),  # up to log(n - 1)
    "flat_exp": divide_by_constant,
    "flat_lse": flat_nce_loss,
}


def measure(cell: Cell) -> Mapping[str, Any]:
    """How wrong the gradient is; 1 also stands for one that is not finite."""
    loss = LOSSES[cell["way"]]
    scores = draw_scores(N, cell["gap"], cell.generator())
    rounded = scores.to(getattr(torch, cell["precision"]))
    exact = gradient(flat_nce_loss, rounded.double())
    return {"error": relative_error(gradient(loss, rounded), exact)}


def judge(rows: Rows) -> Verdict:
    """Written alike, does one of them lose its gradient where the other keeps it?"""
    worst = {way: max(rows.where(way=way)["error"]) for way in WAYS}
    broken = {
        way: sum(error > BAD for error in rows.where(way=way)["error"]) for way in WAYS
    }
    n = len(rows.where(way="flat_lse"))
    stable = (
        f"Written with a log-sum-exp, the gradient without the positive is off by at "
        f"most {worst['drop_lse']:.2g} of its length, and FlatNCE's by at most "
        f"{worst['flat_lse']:.2g}"
    )
    if worst["drop_lse"] > BAD >= worst["flat_lse"]:
        return Verdict("holds", f"{stable}.")
    naive = (
        f"with a plain sum of exponentials, {broken['drop_exp']} of {n} gradients "
        f"without the positive are off by more than {BAD:.0%}, and so are "
        f"{broken['flat_exp']} of FlatNCE's as equation 3 prints it"
    )
    return Verdict("does not hold", f"{stable}; {naive}.")


def draw(rows: Rows, figure: Figure) -> None:
    """The error by how far partners are above strangers, one panel per precision."""
    panels = figure.subplots(1, len(PRECISIONS), sharey=True)
    for axes, precision in zip(panels, PRECISIONS, strict=True):
        part = rows.where(precision=precision)
        plot_lines(axes, part, x="gap", y="error", by="way", labels=WAYS)
        axes.set(title=precision, yscale="log", ylim=(1e-8, 2))
        axes.get_legend().remove()
        for line, dash in zip(
            axes.get_lines()[::2], ("-", "-", "--", "--"), strict=True
        ):
            line.set_linestyle(dash)  # the pairs of lines lie on each other
    panels[0].set(ylabel="relative error of the gradient (1: useless)")
    panels[1].set(xlabel="logit of the partner above those of strangers")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)


def cells(seeds: int, gaps: tuple[float, ...]) -> list[dict[str, Any]]:
    return grid(precision=PRECISIONS, way=WAYS, gap=gaps, seed=range(seeds))


CLAIM = Claim(
    name="term_dropping_unstable",
    paper="flatnce",
    where="section 3, table S2",
    says="InfoNCE without the positive in its sum is numerically unstable, which "
    "FlatNCE overcomes although it has the same gradient.",
    run=f"Gradients at scores of {N} pairs, from partners that score 100 below "
    "strangers (120 at full size) to partners as far above them, in float16, bfloat16 "
    "and float32. Each objective is written twice: with a plain sum of exponentials, "
    "and with a log-sum-exp.",
    refuted_if="Written the same way, both are right or both wrong at the same scores.",
    sizes={
        "tiny": cells(1, (-20.0, 0.0, 20.0)),
        "quick": cells(3, (-100.0, -50.0, -20.0, -10.0, 0.0, 10.0, 20.0, 50.0, 100.0)),
        "full": cells(10, tuple(float(gap) for gap in range(-120, 121, 10))),
    },
    measure=measure,
    judge=judge,
    draw=draw,
    columns={
        "precision": "precision",
        "computed as": "way",
        "gap of logits": "gap",
        "relative error of the gradient": "error",
    },
    correction=r"""
    Let $h_i = \log\sum_{j\ne i} e^{g_{ij} - g_{ii}}$. Term-dropping InfoNCE is $h_i$,
    FlatNCE is $e^{h_i - \mathrm{sg}\,h_i}$ with sg for a stopped gradient. The exponent
    is exactly 0, so the derivative is $1 \cdot \nabla h_i$: the same number, from the
    same log-sum-exp. A sum of exponentials that are not scaled by the largest is
    unstable, and equation 3, taken literally, is such a sum.
    """,
)
