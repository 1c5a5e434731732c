"""Three objectives of table S2 as printed do not read the mutual information."""

import torch
from torch import Tensor

from ...estimators import (
    correlated_gaussian,
    donsker_varadhan,
    flo,
    nwj_of_log_ratio,
)
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_lines
from .._spread import Spread
from ._made_scores import exact_scores

WIDTH, N, CLOSE = 4, 128, 0.25
NAMES = {
    "dv": "Donsker-Varadhan",
    "nwj": "Nguyen-Wainwright-Jordan",
    "flo": "Fenchel-Legendre",
}


def read_printed(name: str, scores: Tensor) -> Tensor:
    """A line of the table at the best critic; the sums are over strangers."""
    n, positive = len(scores), scores.diagonal()
    strangers = ~torch.eye(n, dtype=torch.bool)
    total = (scores.exp() * strangers).sum(1)
    if name == "dv":
        return (positive - total.log() / (n - 1)).mean()
    if name == "nwj":
        return (positive - total / (n - 1)).mean()
    # a loss, so its sign is turned; the best u is minus the score of the partner
    return -(-positive + total / (n - 1)).mean()


CORRECTED = {
    "dv": donsker_varadhan,
    "nwj": nwj_of_log_ratio,
    "flo": lambda scores: flo(scores, -scores.diagonal()),
}


def measure(cell: Cell) -> Values:
    """The mean over batches, at the exact critic."""
    pairs = correlated_gaussian(WIDTH, nats=cell["nats"])
    name, generator = cell["objective"], cell.generator()
    printed, corrected = [], []
    for _ in range(cell["batches"]):
        scores = exact_scores(pairs, N, generator)
        if name == "dv":
            scores = scores + 1  # a best critic, too: it is free up to a constant
        printed.append(read_printed(name, scores))
        corrected.append(CORRECTED[name](scores))
    return {
        "printed": torch.stack(printed).mean().item(),
        "corrected": torch.stack(corrected).mean().item(),
    }


def judge(rows: Rows) -> Verdict:
    """How far each line is from the truth, printed and corrected."""
    off: dict[str, dict[str, float]] = {}
    for form in ("printed", "corrected"):
        off[form] = {
            name: Spread.of([r[form] - r["nats"] for r in part]).mean
            for name in NAMES
            if (part := rows.where(objective=name))
        }
    shown = ", ".join(
        f"{NAMES[name]} {value:+.2f}" for name, value in off["printed"].items()
    )
    most = max(map(abs, off["corrected"].values()))
    because = (
        f"At the best critic the printed lines are off by this many nats: {shown}; "
        f"corrected, all are within {most:.2f} of the truth."
    )
    wrong = [abs(value) > CLOSE for value in off["printed"].values()]
    if all(wrong) and most < CLOSE:
        return Verdict("formula is wrong", because)
    return Verdict("not decided" if any(wrong) else "holds", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Value against truth, a panel for each form."""
    panels = figure.subplots(1, 2, sharey=True)
    truth = list(dict.fromkeys(rows["nats"]))
    for axes, form in zip(panels, ("printed", "corrected"), strict=True):
        axes.plot(truth, truth, "k:", linewidth=3, label="the truth")
        plot_lines(axes, rows, x="nats", y=form, by="objective", labels=NAMES)
        axes.get_lines()[-2].set_linestyle("--")  # it lies on the one before
        axes.set(title=form, xlabel="mutual information, nats")
    panels[0].get_legend().remove()
    panels[0].set(ylabel="value, nats")


ABOUT = About(
    where="table S2",
    says="Table S2 lists variational objectives of the mutual information; read as "
    "estimates, their best value is the mutual information.",
    run=f"{WIDTH}-dimensional Gaussians with 1 to 3 nats (0.5 to 4 at full size), "
    f"batches of {N}: three lines as printed, and corrected, at the best critic and "
    "dual. For Donsker-Varadhan that is the exact critic plus 1, which is as good.",
    refuted_if="Values at the best critic that are not the true information.",
    sizes=plan(
        objective=NAMES,
        tiny={"nats": (1.0,), "batches": 4, "seeds": 2},
        quick={"nats": (1.0, 2.0, 3.0), "batches": 10, "seeds": 4},
        full={"nats": (0.5, 1.0, 2.0, 3.0, 4.0), "batches": 200, "seeds": 10},
    ),
    columns={
        "objective": "objective",
        "true nats": "nats",
        "as printed": "printed",
        "corrected": "corrected",
    },
    correction=r"""
    Take $g = \log\frac{p(x, y)}{p(x)p(y)}$, for which the mean of $e^g$ over strangers
    is 1 and that of $g$ over partners is $I$.

    - Donsker-Varadhan is $\mathbb E_p[g] - \log \frac1K\sum_j e^{g_j}$: the $1/K$
      belongs inside the logarithm. Outside it divides a $\log K$ by $K$, and adding a
      constant to $g$ makes the value as large as one likes.
    - Nguyen-Wainwright-Jordan is $1 + \mathbb E_p[g] - \frac1K\sum_j e^{g_j}$. Without
      the 1 the best value is $I - 1$.
    - Fenchel-Legendre: $u + \frac1K\sum_j e^{-u + g_j - g}$ is a loss whose least value
      is $1 - I$, so $I = 1 - \min$; and its sum has $u(x_i, y_i)$, not $u(x_i, y_j)$.
    - The line of FlatNCE subtracts a logit from a mean of exponentials; it should be
      $\frac1K\sum_j e^{g_j - g}$ over the same with a stopped gradient.
    """,
)
