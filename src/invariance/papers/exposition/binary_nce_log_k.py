"""Binary NCE with k noise samples per datum: which critic is its optimum."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ...estimators import binary_nce, table
from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_values
from .._spread import Spread

VALUES = 4  # of x and of y, so that a critic is a table and nothing limits it
P = 1 + 3 * torch.eye(VALUES)


def measure(cell: Cell) -> Values:
    """Both losses minimized over tables; how far their optima are from the ratio."""
    pairs, k = table(P), cell["k"]
    x, y = pairs.sample(cell["n"], generator=cell.generator())
    a, b = x.long()[:, 0], y.long()[:, 0]

    def printed(scores: Tensor) -> Tensor:
        n = len(scores)
        strangers = logsigmoid(-scores) * (1 - torch.eye(n))
        noise = strangers.sum() / (n * (n - 1))
        return -logsigmoid(scores.diagonal()).mean() - k * noise

    def right(scores: Tensor) -> Tensor:
        return -binary_nce(scores, noise=k)

    cells = torch.cartesian_prod(*2 * [torch.arange(VALUES).double()])
    log_ratio = pairs.log_ratio(cells[:, :1], cells[:, 1:]).view(VALUES, VALUES)
    return {
        "offset_printed": float((minimize(printed, a, b) - log_ratio).mean()),
        "offset_right": float((minimize(right, a, b) - log_ratio).mean()),
    }


def minimize(loss: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The table of scores at which the loss of a sample is smallest."""
    g = torch.zeros(VALUES, VALUES, requires_grad=True)
    optimizer = torch.optim.LBFGS([g], max_iter=40, line_search_fn="strong_wolfe")

    def step() -> Tensor:
        optimizer.zero_grad()
        value = loss(g[x][:, y])
        value.backward()
        return value

    optimizer.step(step)
    return g.detach()


def judge(rows: Rows) -> Verdict:
    """Whether the printed optimum is the log ratio, or that less log k."""
    k = max(rows["k"])
    large = rows.where(k=k)
    printed, right = (Spread.of(large[f"offset_{n}"]) for n in ("printed", "right"))
    because = (
        f"At k = {k} the printed optimum differs from the log ratio by "
        f"{printed.mean:+.2f} (deviation {printed.deviation:.2f}), and log k is "
        f"{math.log(k):.2f}; with log k in the sigmoid it differs by "
        f"{right.mean:+.2f}."
    )
    if printed.high < -0.5 * math.log(k):
        return Verdict("formula is wrong", because)
    if printed.low > -0.1 and printed.high < 0.1:
        return Verdict("holds", because)
    return Verdict("not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Offsets by k."""
    axes = figure.subplots()
    lines = {"offset_printed": "as printed", "offset_right": "with log k"}
    plot_values(axes, rows, x="k", lines=lines)
    ks = sorted(set(rows["k"]))
    minus = [-math.log(k) for k in ks]
    axes.plot(ks, minus, "--", color="black", linewidth=1, label="-log k")
    axes.legend(frameon=False)
    axes.set(xscale="log", xlabel="noise samples per datum, k")
    axes.set(ylabel="optimum - log p(x,y)/p(x)p(y), nats")


ABOUT = About(
    where="sections 3.5 and 4.7",
    says=r"Binary NCE minimizes $-\mathbb E_p\log\sigma(g) - "
    r"k\,\mathbb E_q\log(1-\sigma(g))$, and so recovers the density ratio.",
    run=f"Two variables of {VALUES} values each with a known table of probabilities; "
    "both losses are minimized over all tables of scores.",
    refuted_if="An optimum that differs from the log ratio by more than chance.",
    sizes=plan(
        tiny={"k": (1, 16), "n": 200, "seeds": 2},
        quick={"k": (1, 4, 16, 64), "n": 500, "seeds": 5},
        full={"k": (1, 4, 16, 64, 256), "n": 2000, "seeds": 10},
    ),
    columns={"k": "k", "as printed": "offset_printed", "with log k": "offset_right"},
    correction=r"""
    Where p has density $p$ and the noise density $q$, the loss is smallest where
    $p(1-\sigma(g)) = k\,q\,\sigma(g)$, that is $\sigma(g) = \frac{p}{p + kq}$, which is
    the classifier of section 3.5, or $g = \log\frac{p}{q} - \log k$. Section 4.7 does
    not say what g is; taken for the log ratio, as the critic is in the rest of the
    text, the printed g is too small by log k. With $\sigma(g - \log k)$ in both terms
    the optimum is the log ratio itself, whatever k.
    """,
)
