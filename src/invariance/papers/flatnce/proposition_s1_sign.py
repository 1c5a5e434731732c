"""With the positive kept, FlatNCE's gradient is minus that of the InfoNCE bound."""

from typing import Any

import torch
from torch.nn.functional import cosine_similarity

from ...objectives import flat_nce, info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_batches, plot_lines
from ._made_scores import gradient

WIDTH, TEMPERATURE = 32, 0.2


def measure(cell: Cell) -> Values:
    """Cosine and ratio of the two gradients."""
    n, generator = cell["n"], cell.generator()
    u, v = torch.randn(2, n, WIDTH, generator=generator, dtype=torch.double)
    how: dict[str, Any] = {"temperature": TEMPERATURE}
    plus = {"keep_positive": True, "negatives": "cross", **how}
    flat = gradient(lambda u: flat_nce(u, v, **plus), u).flatten()
    bound = gradient(lambda u: -info_nce(u, v, **how), u).flatten()  # log K - L
    return {
        "cosine": cosine_similarity(flat, bound, 0).item(),
        "ratio": (flat.norm() / bound.norm()).item(),
    }


def judge(rows: Rows) -> Verdict:
    """Same length, and the same or the opposite direction."""
    low, high = min(rows["cosine"]), max(rows["cosine"])
    length = max(abs(1 - ratio) for ratio in rows["ratio"])
    because = (
        f"In all {len(rows)} batches the two gradients have the same length to within "
        f"{length:.1g} and a cosine of {low:.3f}"
        f"{'' if high - low < 1e-6 else f' to {high:.3f}'}."
    )
    if length > 1e-9:
        return Verdict("does not hold", because)
    if high < -1 + 1e-9:
        return Verdict(
            "formula is wrong",
            f"{because} So the printed equation lacks a minus sign, as its proof "
            "admits: FlatNCE falls where the bound rises.",
        )
    return Verdict("holds" if low > 1 - 1e-9 else "does not hold", because)


def draw(rows: Rows, figure: Figure) -> None:
    """The cosine by batch size."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="n", y="cosine")
    axes.axhline(1, color="C3", linewidth=1, linestyle="--")
    axes.annotate("as printed", (rows[0]["n"], 0.88), color="C3")
    axes.annotate("measured", (rows[0]["n"], -0.92), color="C0")
    mark_batches(axes, rows)
    axes.set(ylim=(-1.1, 1.1))
    axes.set(ylabel="cosine of the two gradients")


ABOUT = About(
    where="proposition S1 of section E, equation 16",
    says="With the positive kept in both sums, FlatNCE has the gradient of the InfoNCE "
    "bound.",
    run=f"Random pairs in {WIDTH} dimensions, batches of 4 to 256, double precision: "
    "the gradient of FlatNCE with the positive kept, compared with that of log K - L.",
    refuted_if="Gradients that are not equal.",
    sizes=plan(
        tiny={"n": (4, 16), "seeds": 1},
        quick={"n": (4, 16, 64, 256), "seeds": 5},
        full={"n": (4, 16, 64, 256), "seeds": 20},
    ),
    columns={"batch size": "n", "cosine": "cosine", "ratio of lengths": "ratio"},
    correction=r"""
    Let $f_i = \sum_j e^{g_{ij} - g_{ii}}$, with $j = i$ in the sum. FlatNCE with the
    positive is $f_i / \mathrm{sg}\,f_i$, with sg for a stopped gradient, so its
    gradient is $\nabla f_i / f_i = \nabla \log f_i$. The bound is
    $I = \log K - \log f_i$, so $\nabla I = -\nabla \log f_i$. It is the gradients of
    FlatNCE and of the *loss* $\log f_i$ that are equal: both are to be made small.
    """,
)
