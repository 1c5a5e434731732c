"""The bias of log K - L at the optimal critic: O(1/K), with which constant."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...estimators import info_nce, nwj_of_log_ratio
from .._claim import About, Cell, Figure, Row, Rows, Values, Verdict, plan
from .._figures import plot_lines
from .._spread import Spread
from ._known_pairs import WIDTH, average_batches

NEAR = (0.8, 1.25)


def variance_of_ratio(nats: float) -> float:
    """Var(r) over strangers, exact for Gaussians of any width."""
    return math.expm1(2 * nats)


def measure(cell: Cell) -> Values:
    """The bias, and how much of the printed one that is."""

    def read(x: Tensor, y: Tensor, exact: Tensor) -> Mapping[str, Any]:
        bias = info_nce(exact) - exact.diagonal().mean()
        # the strangers' mean ratio, which is 1: what a batch has more is chance
        chance = exact.diagonal().mean() - nwj_of_log_ratio(exact)
        products = {"products": bias * chance, "squares": chance**2}
        return {"bias": bias, "chance": chance, **products}

    m = average_batches(cell, cell["nats"], read)
    slope = (m["products"] - m["bias"] * m["chance"]) / (
        m["squares"] - m["chance"] ** 2
    )
    bias = m["bias"] - slope * m["chance"]
    printed = -variance_of_ratio(cell["nats"]) / (2 * cell["n"])
    return {"bias": bias, "printed": printed, "share": bias / printed}


def judge(rows: Rows) -> Verdict:
    """Where the measured bias is the printed one, at the largest K."""
    large = rows.where(n=max(rows["n"]))
    shares = large.spreads("nats", "share")
    fits = {nats: _is_near(share) for nats, share in shares.items()}
    shown = "; ".join(f"{share} where I = {nats:g}" for nats, share in shares.items())
    because = f"At K = {max(rows['n'])}, measured bias over printed bias: {shown}."
    least, most = min(shares), max(shares)
    if all(fits.values()):
        return Verdict("holds", because)
    if fits[least] and shares[most].high < NEAR[0]:
        return Verdict(
            "holds within limits",
            f"{because} The printed constant is right once K is well above Var(r), "
            f"which is {variance_of_ratio(least):.2g} at {least:g} nats and "
            f"{variance_of_ratio(most):,.0f} at {most:g}.",
        )
    off = shares[least].high < NEAR[0] or shares[least].low > NEAR[1]
    return Verdict("does not hold" if off else "not decided", because)


def _is_near(share: Spread) -> bool:
    return NEAR[0] < share.low and share.high < NEAR[1]


def draw(rows: Rows, figure: Figure) -> None:
    """The bias on logarithmic axes, with the printed one dashed."""
    axes = figure.subplots()
    sizes = sorted(set(rows["n"]))
    labels = {nats: f"I = {nats:g}" for nats in rows["nats"]}
    for k, nats in enumerate(labels):
        printed = [variance_of_ratio(nats) / (2 * n) for n in sizes]
        axes.plot(sizes, printed, "--", color=f"C{k}", linewidth=1)
    size = Rows(Row(row.settings, {"size": -row["bias"]}) for row in rows)
    plot_lines(axes, size, x="n", y="size", by="nats", labels=labels)
    axes.legend(frameon=False, title="dashed: Var(r) / 2K")
    axes.set(xscale="log", yscale="log", ylim=(2e-4, 200))
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set(xlabel="candidates K", ylabel="how far log K - L is below I, nats")


ABOUT = About(
    where="theorem 5",
    says=r"The bias of the estimate is $-\mathrm{Var}(r)/2K$ up to $O(K^{-2})$, with r "
    "the density ratio of a stranger.",
    run=f"The exact critic of {WIDTH}-dimensional Gaussians that share 0.5 to 4 nats, "
    "with up to 512 candidates.",
    refuted_if="A bias at large K that is not the printed one, even where Var(r) is "
    "small.",
    sizes=plan(
        tiny={"nats": (0.5, 4.0), "n": (16, 64), "batches": 20, "seeds": 2},
        quick={
            "nats": (0.5, 1.0, 2.0, 4.0),
            "n": (16, 64, 256, 512),
            "batches": 120,
            "seeds": 5,
        },
        full={
            "nats": (0.5, 1.0, 2.0, 4.0, 6.0),
            "n": (16, 64, 256, 1024, 4096),
            "batches": 100,
            "seeds": 10,
        },
    ),
    columns={
        "nats": "nats",
        "K": "n",
        "bias": "bias",
        "printed": "printed",
        "measured / printed": "share",
    },
    correction=r"""
    The constant is right, but the series is one in $\mathrm{Var}(r)/K$, and Var(r)
    grows exponentially with the information. Write the mean under the logarithm as
    $\frac{r + S}{K} = 1 + \frac{r-1}{K} + \frac{S-(K-1)}{K}$, where r belongs to the
    positive and S sums K - 1 strangers. To first order its logarithm has the
    expectation
    $\frac{\mathbb E_p[r]-1}{K} - \frac{\mathrm{Var}_q(r)}{2K}$, and
    $\mathbb E_p[r] - 1 = \mathbb E_q[r^2] - 1 = \mathrm{Var}_q(r)$. So the bias,
    minus that expectation, is $-\mathrm{Var}(r)/2K$ if K is far above Var(r). For
    Gaussians $\mathbb E_q[r^2] = \prod_k (1-\rho_k^2)^{-1} = e^{2I}$, so K must be far
    above $e^{2I}$: at 4 nats that is about 3,000, at 10 nats half a billion.
    """,
)
