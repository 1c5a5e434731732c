"""InfoNCE is alignment plus a mean of logarithms; the printed uniformity bounds it."""

import math

from ... import alignment, info_nce, split_info_nce, uniformity
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import mark_sizes, plot_lines
from ._drawn_views import draw_views

T = 2.0  # of the printed uniformity
TEMPERATURE = 1 / (2 * T)  # at which exp(-T D^2) is exp(cosine / temperature), scaled
LAYOUTS = ("uniform", "uneven", "half in a cluster")
EXACT, CLOSE = 1e-9, 0.02


def measure(cell: Cell) -> Values:
    """The loss, the sum of its exact parts, and that of the printed ones."""
    u, v = draw_views(cell["n"], cell["layout"], cell.generator())
    loss = info_nce(u, v, temperature=TEMPERATURE).item()
    parts = split_info_nce(u, v, temperature=TEMPERATURE)
    pull = (alignment(u, v) / 2 - 1) / TEMPERATURE
    even = (uniformity(u, t=T) + uniformity(v, t=T)) / 2
    printed = pull + even + 2 * T  # the Gaussian is e^(-2T) e^(2T cosine)
    return {
        "loss": loss - math.log(len(u)),
        "exact_error": abs(loss - pull - parts.uniformity),
        "gap": printed - (loss - math.log(len(u))),
    }


def judge(rows: Rows) -> Verdict:
    """The exact parts must add up; the printed ones should, for many samples."""
    error, n = max(rows["exact_error"]), max(rows["n"])
    if error > EXACT:
        return Verdict(
            "does not hold",
            f"Alignment and the mean log-partition miss the loss by {error:.2g} nats.",
        )
    gaps = rows.where(n=n).spreads("layout", "gap")
    off = {name: s for name, s in gaps.items() if abs(s.mean) > CLOSE}
    exact = (
        f"Alignment and the mean log-partition add up to the loss within {error:.0e}"
    )
    if not off:
        return Verdict(
            "holds",
            f"{exact}; with the printed uniformity the sum is also within {CLOSE:g} of "
            f"it, for {n:,} samples.",
        )
    worst = max(off, key=lambda name: abs(off[name].mean))
    even = gaps["uniform"]
    return Verdict(
        "holds within limits",
        f"{exact}. The limit: the printed uniformity takes the logarithm of the mean, "
        f"not the mean of logarithms. For {n:,} evenly spread samples the sum is off "
        f"by {abs(even.mean):.3f} nats, for '{worst}' by {off[worst].mean:.2f}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """What the printed parts add to the loss, by the number of samples."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="n", y="gap", by="layout")
    axes.axhline(0, color="black", linewidth=1)
    mark_sizes(axes, rows["n"], "samples in the batch")
    axes.set(ylabel="printed parts add up to more by, nats")


ABOUT = About(
    where="alignment and uniformity decomposition",
    says="InfoNCE decomposes into alignment (the mean squared distance of partners) "
    "and uniformity (the logarithm of the mean Gaussian potential of all pairs).",
    run="Embeddings drawn evenly, unevenly, or half of them in a cluster. The loss "
    "less log n, at the temperature that matches the Gaussian, is compared with the "
    "sum of the exact parts and with the sum of the printed ones.",
    refuted_if="Exact parts that do not add up. Printed parts that are still off with "
    "thousands of samples limit the claim.",
    sizes=plan(
        layout=LAYOUTS,
        tiny={"n": (16, 64), "seeds": 2},
        quick={"n": (16, 64, 256, 1024, 4096), "seeds": 5},
        full={"n": (16, 64, 256, 1024, 4096, 16384), "seeds": 10},
    ),
    columns={
        "samples lie": "layout",
        "samples": "n",
        "loss - log n": "loss",
        "error of exact parts": "exact_error",
        "printed parts too much by": "gap",
    },
    correction=r"""
    For unit rows, $u_i\cdot v_i = 1 - \tfrac12\lVert u_i - v_i\rVert^2$. Therefore
    $$L = \underbrace{\tfrac1\tau\big(\tfrac12\,\mathrm{mean}_i\lVert u_i-v_i\rVert^2 -
    1\big)}_{\text{alignment}} + \underbrace{\mathrm{mean}_i\log\sum_j e^{u_i\cdot
    v_j/\tau}}_{\text{spreading}}$$
    exactly, for every batch. With n samples,
    $L - \log n \to \text{alignment} + \mathbb E_x\log\mathbb E_y e^{x\cdot y/\tau}$.
    The printed uniformity is $\log\mathbb E_x\mathbb E_y e^{-t\lVert x-y\rVert^2}$,
    which is at least as large by Jensen's inequality (up to the constant $2t$, with
    $t = 1/2\tau$). The two are equal where every point sees the same potential, such as
    on an evenly covered sphere. So the printed pair is an upper bound of InfoNCE's
    limit with the same minimum, not a decomposition of it.
    """,
)
