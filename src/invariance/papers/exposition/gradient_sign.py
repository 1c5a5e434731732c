"""The gradient of the loss with respect to a similarity: its sign and its size."""

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ...estimators import info_nce
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._spread import Spread
from ._views_on_sphere import draw_near, draw_unit_rows

WIDTH, NOISE = 16, 0.7
EQUAL = 1e-9  # relative, of numbers in float64


def differentiate(cosines: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The gradient of each row's loss to its cosines, and its softmax."""
    leaf = cosines.clone().requires_grad_()
    (-len(leaf) * info_nce(leaf / temperature)).backward()
    assert leaf.grad is not None
    return leaf.grad, (cosines / temperature).softmax(1)


def measure(cell: Cell) -> Values:
    """How the printed formula and the one with the other sign compare with autograd."""
    generator = cell.generator()
    u = draw_unit_rows(cell["n"], WIDTH, generator)
    cosines = u @ draw_near(u, NOISE, generator).mT
    gradient, p = differentiate(cosines, cell["temperature"])
    printed = (torch.eye(len(u)).to(p) - p) / cell["temperature"]
    size = gradient.abs().max()
    return {
        "error_printed": float((gradient - printed).abs().max() / size),
        "error_opposite": float((gradient + printed).abs().max() / size),
        "direction_printed": float(
            cosine_similarity(gradient.flatten(), printed.flatten(), dim=0)
        ),
        "to_positive": float(gradient.diagonal().mean()),
    }


def judge(rows: Rows) -> Verdict:
    """Which of the two signs is the gradient's."""
    printed, opposite = max(rows["error_printed"]), max(rows["error_opposite"])
    direction = Spread.of(rows["direction_printed"])
    pull = Spread.of(rows.where(temperature=min(rows["temperature"]))["to_positive"])
    if printed < EQUAL:
        return Verdict(
            "holds",
            f"The printed formula is the gradient to within {printed:.0e} of it.",
        )
    if opposite < EQUAL:
        return Verdict(
            "formula is wrong",
            "The printed direction is opposite to the gradient (their cosine is "
            f"{direction.mean:g}); with the other sign the formula equals the gradient "
            f"to within {opposite:.0e} of it. The loss falls as the similarity of the "
            f"positive rises: its slope is {pull} at the lowest temperature.",
        )
    return Verdict(
        "does not hold",
        "The gradient is neither the printed formula nor its opposite: they are off "
        f"by {printed:.1g} and {opposite:.1g} of it.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """How far both signs are from the gradient."""
    axes = figure.subplots()
    for value, label in (
        ("error_printed", "as printed: (1 - p) / temperature"),
        ("error_opposite", "opposite sign: (p - 1) / temperature"),
    ):
        errors = [max(error, 1e-17) for error in rows[value]]
        axes.plot(rows["temperature"], errors, "o", label=label, alpha=0.6)
    axes.axhline(2, color="black", linewidth=1)
    axes.annotate("wrong sign: off by twice itself", (0.2, 20))
    axes.set(xscale="log", yscale="log", ylim=(1e-17, 1e3))
    axes.set(xlabel="temperature", ylabel="largest error, relative to the gradient")
    axes.legend(frameon=False, loc="center")


ABOUT = About(
    where="sections 6.6 and 9",
    says="The gradient of the loss with respect to a similarity is "
    r"$(1_{x = x^+} - p)/\tau$.",
    run=f"Gradients by automatic differentiation, for random unit rows with {WIDTH} "
    "columns and their noisy views, at six temperatures.",
    refuted_if="A gradient that is not the printed formula, up to rounding.",
    sizes=plan(
        temperature=(0.05, 0.07, 0.1, 0.2, 0.5, 1.0),
        tiny={"n": 32, "seeds": 2},
        quick={"n": 256, "seeds": 5},
        full={"n": 1024, "seeds": 20},
    ),
    columns={
        "temperature": "temperature",
        "error of the printed formula": "error_printed",
        "with the other sign": "error_opposite",
        "slope to the positive": "to_positive",
    },
    correction=r"""
    $L = -\frac{s^+}{\tau} + \log\sum_x e^{s(x)/\tau}$. The first term gives
    $-1_{x=x^+}/\tau$ and the second $+p(x)/\tau$, so
    $\frac{\partial L}{\partial s(x)} = \frac1\tau\big(p(x) - 1_{x=x^+}\big)$. What is
    printed is the direction in which gradient **descent** moves the similarity: up for
    the positive, down for each negative by its probability.
    """,
)
