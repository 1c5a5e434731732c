"""The gradient of VINCE+ in its acceptance, as printed, is not the gradient.

With exact weights there is nothing to learn: the value does not depend on r at all.
"""

import torch

from .._claim import About, Cell, Figure, Rows, Values, Verdict, grid
from .._spread import Spread
from ._small_world import World, expect_value, make_world

K = 3
SAME = 1e-6


def accept(world: World, slope: torch.Tensor) -> torch.Tensor:
    """r(y | y_1), which one number makes more or less eager for far places."""
    return torch.sigmoid(1 - slope * world.distance.double())


def expect_value_of(world: World, slope: torch.Tensor, *, exact: bool) -> torch.Tensor:
    """VINCE+ with weights Z/r (exact) or 1/r, negatives from the sampler's law."""
    r = accept(world, slope)
    rate = (r * world.prior).sum(1, keepdim=True) if exact else 1.0
    return expect_value(world, world.log_ratio, world.accept(r), K, weight=rate / r)


def compute_printed(world: World, slope: torch.Tensor) -> float:
    """Lemma C.1 as printed, with E over the law that the sampler has.

    Its second and third terms are E_q[h sum grad r / r] and minus the same, so they
    cancel; the first has no grad r in it.
    """
    r = accept(world, slope).detach()
    law = world.accept(r)
    # -f(x, y_1) sum_i 1/r_i^2 prod_{j != i} 1/r_j, over K - 1 = 2 negatives
    one, two = (law / r).sum(1), (law / r**2).sum(1)
    critic = (world.joint * world.log_ratio).sum(1)  # E[f; y_1]
    return float(-(critic * (K - 1) * two * one ** (K - 2)).sum())


def measure(cell: Cell) -> Values:
    """Printed and true derivative in the slope of the acceptance."""
    world, gradients = make_world(cell.generator()), {}
    for exact in (False, True):
        slope = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        expect_value_of(world, slope, exact=exact).backward()
        assert slope.grad is not None
        gradients[exact] = float(slope.grad)
    printed = compute_printed(world, torch.tensor(0.5, dtype=torch.float64))
    return {"printed": printed, "true": gradients[False], "exact": gradients[True]}


def judge(rows: Rows) -> Verdict:
    """The printed gradient has to be that of the printed objective."""
    error = min(abs(row["printed"] - row["true"]) for row in rows)
    opposite = sum(row["printed"] * row["true"] < 0 for row in rows)
    if max(abs(row["printed"] - row["true"]) for row in rows) <= SAME:
        return Verdict("holds", "Printed and true derivative agree in every world.")
    zero = max(abs(value) for value in rows["exact"])
    return Verdict(
        "formula is wrong",
        f"The printed and the true derivative differ by {error:.2f} or more, and have "
        f"opposite signs in {opposite} of {len(rows)} worlds. With the exact weights "
        f"Z/r the derivative is 0 (at most {zero:.0e}): the bound itself does not care "
        "which negatives are accepted.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """The three derivatives, world by world."""
    axes = figure.subplots()
    labels = {
        "printed": "lemma C.1, as printed",
        "true": "true, weights 1/r",
        "exact": "true, weights Z/r",
    }
    for place, value in enumerate(labels):
        mean = Spread.of(rows[value]).mean
        axes.plot(rows[value], [place] * len(rows), ".", color="C0", alpha=0.4)
        axes.plot([mean] * 2, [place - 0.25, place + 0.25], color="C0", linewidth=2)
    axes.set_yticks(range(len(labels)), list(labels.values()))
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=1)
    axes.set(xlabel="derivative of the value in the slope of the acceptance, nats")


ABOUT = About(
    where="appendix C, lemma C.1",
    says="The acceptance of negatives can be learned by gradient ascent on VINCE+, "
    "with the three terms of the lemma.",
    run="Worlds of ten places in which every expectation is a finite sum, an "
    "acceptance with one parameter, 3 candidates; the sum in the lemma is compared "
    "with automatic differentiation of the objective.",
    refuted_if="A printed gradient that differs from the derivative of the objective.",
    sizes={
        "tiny": grid(seed=range(2)),
        "quick": grid(seed=range(20)),
        "full": grid(seed=range(200)),
    },
    columns={"as printed": "printed", "true, 1/r": "true", "true, Z/r": "exact"},
    correction=r"""
    Equation 17 writes the product of weights outside the expectation over negatives,
    where there are no negatives to weigh; here it is read inside.

    Write $h = \prod_j r_j^{-1}\log\frac1K\sum_k e^{g_k}$. The lemma's second term is
    $\mathbb E_q[h\sum_j \nabla\log r_j]$, its third is
    $-\mathbb E_q[h\sum_i \nabla r_i/r_i]$: the same with the other sign, so they
    cancel. The first term, which is left, lost its $\nabla r_i$ and so is not a
    gradient in any parameter (it should read
    $-f\sum_i \frac{\nabla r_i}{r_i}\prod_j\frac1{r_j}$). All three miss
    $-\nabla\log Z$ of the normalized law $q = rp/Z$.

    The right result is short. With weights Z/r the value is InfoNCE whatever r is, so
    its gradient in r is 0. With 1/r it is InfoNCE times $Z(y_1)^{-(K-1)}$, which is
    raised by accepting nothing. The bound cannot teach r; another aim can, such as
    keeping the negatives that score high (`vince_plus` does that).
    """,
)
