"""The released code of DHEL weighs spreading twice as much as the symmetric loss."""

import torch

from ... import dhel
from .._claim import About, Cell, Figure, Rows, Values, Verdict, grid
from .kcl_batch_free import draw_pairs

SAME = 1e-9
TEMPERATURES = (0.1, 0.3, 1.0)


def measure(cell: Cell) -> Values:
    """Both losses, and the gradient of the released one against its formula."""
    n, temperature = cell["n"], cell["temperature"]
    u, v = (z.requires_grad_() for z in draw_pairs(n, cell.generator()))
    positive = torch.cosine_similarity(u, v).mean() / temperature
    released = dhel(u, v, temperature=temperature, views="sum")
    symmetric = dhel(u, v, temperature=temperature, views="mean")
    formula = 2 * symmetric + positive

    def differentiate(loss: torch.Tensor) -> torch.Tensor:
        gradients = torch.autograd.grad(loss, (u, v), retain_graph=True)
        return torch.stack(gradients)

    error = differentiate(released) - differentiate(formula)
    spreading = symmetric + positive  # what is left of it without the positive
    return {
        "released": released.item(),
        "symmetric": symmetric.item(),
        "formula": formula.item(),
        "gradient_error": error.abs().max().item(),
        "weight": ((released + positive) / spreading).item(),
    }


def judge(rows: Rows) -> Verdict:
    """The released loss must be the symmetric one."""
    apart = max(abs(row["released"] - row["symmetric"]) for row in rows)
    if apart < SAME:
        return Verdict("holds", f"The two losses are equal within {apart:.0e}.")
    off = max(abs(row["released"] - row["formula"]) for row in rows)
    gradient = max(rows["gradient_error"])
    why = (
        "It is twice the symmetric loss plus the mean positive logit, to within "
        f"{off:.0e} in value and {gradient:.0e} in gradient: spreading has weight "
        f"{sum(rows['weight']) / len(rows):.3g} where the pull has 1."
        if max(off, gradient) < SAME
        else f"Nor is it twice the symmetric one plus that logit (off by {off:.2g})."
    )
    return Verdict(
        "does not hold",
        f"In {len(rows)} batches the released loss differs from the symmetric one by "
        f"up to {apart:.2g}. {why}",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """The released loss against the symmetric one and against the formula."""
    left, right = figure.subplots(1, 2)
    for axes, name, title in (
        (left, "symmetric", "symmetric loss"),
        (right, "formula", "2 x symmetric loss + mean positive logit"),
    ):
        x, y = rows[name], rows["released"]
        ends = [min(x + y), max(x + y)]
        axes.plot(ends, ends, color="black", linewidth=1, label="equal")
        axes.plot(x, y, "o", alpha=0.6, label="a batch")
        axes.set(xlabel=title, ylabel="released loss")
    left.legend(frameon=False)


ABOUT = About(
    where="section 5 (mechanism 2)",
    says="Implied, not stated: the released code trains DHEL as described, with the "
    "pull of partners and the energy within the views at equal weight.",
    run="The default of the released code, which adds the energies of both views, "
    "compared with the loss that averages the two directions, in value and gradient, "
    "on drawn embeddings.",
    refuted_if="The released loss is not the symmetric one.",
    sizes={
        "tiny": grid(n=8, temperature=TEMPERATURES, seed=[0]),
        "quick": grid(n=(8, 64, 512), temperature=TEMPERATURES, seed=range(5)),
        "full": grid(n=(8, 64, 512, 2048), temperature=TEMPERATURES, seed=range(20)),
    },
    columns={
        "batch size": "n",
        "temperature": "temperature",
        "released": "released",
        "symmetric": "symmetric",
        "2 x symmetric + positive": "formula",
        "weight of spreading": "weight",
    },
    correction=r"""
    One direction of DHEL is $\ell_i = -s_{ii} + A_i$, with $s_{ii} = u_i\cdot v_i/\tau$
    and $A_i = \log\sum_{j\ne i} e^{u_i\cdot u_j/\tau}$. With $B_i$, the same of the
    other view, the average of both directions is
    $L_{sym} = \mathrm{mean}(-s_{ii} + \tfrac12(A_i + B_i))$. The released code
    multiplies the two denominators but counts the positive once:
    $L = \mathrm{mean}(-s_{ii} + A_i + B_i) = 2 L_{sym} + \mathrm{mean}(s_{ii})$. Up to
    the factor of 2, that is the symmetric loss with half the weight on alignment. Both
    are minimized by the same simplex; away from it their gradients differ, so results
    of the released code should be compared with `views="sum"`.
    """,
)
