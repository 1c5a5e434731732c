"""What the cosine is invariant to: scale, and not translation."""

import torch
from torch.nn.functional import normalize

from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from .._spread import Spread
from ._views_on_sphere import draw_unit_rows

WIDTH = 32
NOTHING = 1e-9


def measure(cell: Cell) -> Values:
    """How far cosines move when rows are scaled, or all shifted alike."""
    generator, amount = cell.generator(), cell["amount"]
    z = draw_unit_rows(cell["n"], WIDTH, generator)
    (shift,) = draw_unit_rows(1, WIDTH, generator)
    scales = 1 + amount * torch.rand(len(z), 1, generator=generator).double()
    before = z @ z.mT

    def change(rows: torch.Tensor) -> float:
        unit = normalize(rows, dim=1)
        return float((unit @ unit.mT - before).square().mean().sqrt())

    return {"scaled": change(scales * z), "shifted": change(z + amount * shift)}


def judge(rows: Rows) -> Verdict:
    """Both invariances, at the largest change."""
    large = rows.where(amount=max(rows["amount"]))
    scaled, shifted = Spread.of(large["scaled"]), Spread.of(large["shifted"])
    because = (
        f"When rows are scaled by up to {1 + max(rows['amount']):g}, their cosines "
        f"stay the same to within {scaled.mean:.0e}. When all are shifted by "
        f"{max(rows['amount']):g} times their length, the cosines change by {shifted}."
    )
    if scaled.mean > NOTHING:
        return Verdict("does not hold", because)
    return Verdict("holds" if shifted.mean < NOTHING else "formula is wrong", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Changes by the size of the shift."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="amount", y="shifted")
    axes.axhline(0, color="black", linewidth=1)
    axes.annotate("as claimed, and as measured for scales", (2, 0.01), ha="right")
    axes.set(xlabel="shift of all rows, in lengths of a row")
    axes.set(ylabel="root mean square change of cosines", ylim=(-0.03, 1))


ABOUT = About(
    where="section 7.10",
    says="The cosine is invariant to scale and, after normalization, to translation.",
    run=f"Random unit rows of {WIDTH} columns, which are either each scaled by a "
    "number of its own or all shifted alike, then normalized.",
    refuted_if="Cosines that change by more than rounding.",
    sizes=plan(
        amount=(0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
        tiny={"n": 32, "seeds": 2},
        quick={"n": 256, "seeds": 5},
        full={"n": 1024, "seeds": 20},
    ),
    columns={"amount": "amount", "scaled": "scaled", "shifted": "shifted"},
    correction=r"""
    $\cos(z_i + b, z_j + b)$ has the numerator
    $z_i^\top z_j + b^\top(z_i + z_j) + \lVert b\rVert^2$: as b grows, every cosine
    approaches 1. Normalizing after the shift does not undo it. What is invariant is the
    cosine of **centered** rows, which is a correlation.
    """,
)
