"""At saturation rounding eats InfoNCE's gradient, if it is a plain cross-entropy.

A softmax that has the positive in it gives the positive the gradient p - 1, a
difference of two numbers that are nearly equal. Keeping the positive out of the sum
avoids it. FlatNCE does so, and so does InfoNCE when it is written as softplus(log-sum
of the others - positive).
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...estimators import flat_nce_loss, info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from ._made_scores import draw_scores
from ._rounding import BAD, PRECISIONS, N, measure_error, plot_errors

WAYS = {
    "plain": "InfoNCE, plain cross-entropy",
    "apart": "InfoNCE, positive apart",
    "flat": "FlatNCE",
}


def plain_cross_entropy(scores: Tensor) -> Tensor:
    """As the paper writes InfoNCE: all candidates in one softmax."""
    return cross_entropy(scores, torch.arange(len(scores)))


LOSSES = {
    "plain": plain_cross_entropy,
    "apart": lambda scores: -info_nce(scores),
    "flat": flat_nce_loss,
}


def measure(cell: Cell) -> Values:
    """How wrong the gradient is, compared with double precision at the same scores."""
    loss = LOSSES[cell["way"]]
    nats = info_nce(draw_scores(N, cell["gap"], cell.generator())).item()
    return {"error": measure_error(cell, loss, exact=loss), "nats": nats}


def find_limits(rows: Rows, way: str) -> dict[str, float]:
    """For each precision the smallest gap at which the gradient is bad, or infinity."""
    limits = {}
    for precision in dict.fromkeys(rows["precision"]):
        errors = rows.where(way=way, precision=precision).spreads("gap", "error")
        bad = [gap for gap, error in errors.items() if error.mean > BAD]
        limits[precision] = min(bad, default=float("inf"))
    return limits


def judge(rows: Rows) -> Verdict:
    """Plain goes bad where FlatNCE does not; the question is whether FlatNCE helps."""
    plain, apart, flat = (find_limits(rows, way) for way in WAYS)
    last = max(rows["gap"])
    if any(flat[p] <= plain[p] for p in plain) or min(plain.values()) > last:
        return Verdict(
            "does not hold",
            f"A plain cross-entropy loses its gradient {_show(plain)}, and FlatNCE "
            f"{_show(flat)}.",
        )
    because = (
        f"A plain cross-entropy gets more than {BAD:.0%} of its gradient wrong "
        f"{_show(plain)}; FlatNCE does so {_show(flat)}."
    )
    later = [apart[p] > plain[p] for p in plain]
    if any(later) and all(apart[p] >= plain[p] for p in plain):
        part = "much of " if min(apart.values()) < float("inf") else ""
        return Verdict(
            "holds within limits",
            f"{because} InfoNCE with the positive kept out of the sum does so "
            f"{_show(apart)}: {part}the cure is how the loss is computed, not which "
            "loss it is.",
        )
    return Verdict("holds", because)


def _show(limits: Mapping[str, float]) -> str:
    parts = [
        f"in {precision} from a gap of {gap:g}"
        for precision, gap in limits.items()
        if gap < float("inf")
    ]
    return ", ".join(parts) or "at no gap tried"


def draw(rows: Rows, figure: Figure) -> None:
    """The error by how far partners are above strangers, one panel per precision."""
    plot_errors(figure, rows, WAYS)


ABOUT = About(
    where="section 2, equation 2, figure 2",
    says="As the estimate nears log K, rounding destroys the gradient of InfoNCE in "
    "float16 and float32, while that of FlatNCE stays intact.",
    run=f"Scores of {N} pairs whose partners score further and further above "
    "strangers. Gradients in float16, bfloat16 and float32 are compared with double "
    "precision at the same scores, for a plain softmax cross-entropy, for InfoNCE with "
    "the positive kept out of the sum, as this library computes it, and for FlatNCE. "
    "At a temperature of 0.1, identical views and strangers at right angles make a gap "
    "of 10.",
    refuted_if="A plain cross-entropy whose gradient is as good as FlatNCE's.",
    sizes=plan(
        precision=PRECISIONS,
        way=WAYS,
        tiny={"gap": (0.0, 10.0, 20.0), "seeds": 2},
        quick={
            "gap": (0.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0, 24.0, 27.0),
            "seeds": 5,
        },
        full={"gap": tuple(float(gap) for gap in range(0, 31)), "seeds": 20},
    ),
    columns={
        "precision": "precision",
        "computed as": "way",
        "gap of logits": "gap",
        "log K - L, nats": "nats",
        "relative error of the gradient": "error",
    },
    correction=r"""
    The text speaks of overflow. Nothing overflows: the positive's gradient is
    $p_{ii} - 1$, and near 1 the numbers of a format are $\epsilon$ apart, so the
    difference is lost once $1 - p_{ii}$ is near $\epsilon$ (about $10^{-3}$ for
    float16, $10^{-7}$ for float32). The same gradient, without the difference: with
    $h_i = \log\sum_{j\ne i} e^{g_{ij}} - g_{ii}$ InfoNCE is
    $\log(1 + e^{h_i}) = \mathrm{softplus}(h_i)$, whose derivative is
    $\sigma(h_i) = 1 - p_{ii}$, a small number that is computed as such. What is left is
    underflow, in float16 below about $6 \cdot 10^{-8}$, which scaling the loss moves
    away.
    """,
)
