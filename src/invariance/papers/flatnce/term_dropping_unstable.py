"""Is InfoNCE without its positive unstable where FlatNCE is not?

Both have the same gradient. What may differ is how they are written: exponentials that
are summed as they are overflow, a log-sum-exp does not.
"""

import torch
from torch import Tensor

from ...estimators import flat_nce_loss, leave_one_out
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from ._rounding import BAD, PRECISIONS, N, measure_error, plot_errors

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


def measure(cell: Cell) -> Values:
    """How wrong the gradient is; 1 also stands for one that is not finite."""
    loss = LOSSES[cell["way"]]
    return {"error": measure_error(cell, loss, exact=flat_nce_loss)}


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
    plot_errors(figure, rows, WAYS, dashed=("flat_exp", "flat_lse"))


ABOUT = About(
    where="section 3, table S2",
    says="InfoNCE without the positive in its sum is numerically unstable, which "
    "FlatNCE overcomes although it has the same gradient.",
    run=f"Gradients at scores of {N} pairs, from partners that score 100 below "
    "strangers (120 at full size) to partners as far above them, in float16, bfloat16 "
    "and float32. Each objective is written twice: with a plain sum of exponentials, "
    "and with a log-sum-exp.",
    refuted_if="Written the same way, both are right or both wrong at the same scores.",
    sizes=plan(
        precision=PRECISIONS,
        way=WAYS,
        tiny={"gap": (-20.0, 0.0, 20.0), "seeds": 1},
        quick={
            "gap": (-100.0, -50.0, -20.0, -10.0, 0.0, 10.0, 20.0, 50.0, 100.0),
            "seeds": 3,
        },
        full={"gap": tuple(float(gap) for gap in range(-120, 121, 10)), "seeds": 10},
    ),
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
