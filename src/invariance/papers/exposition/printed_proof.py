"""The printed proof of the bound, step by step with numbers.

With r the density ratio of the positive and S the sum of those of K - 1 strangers, the
probability that the optimal critic picks the positive is p = r / (r + S).
"""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn.functional import log_softmax

from .._claim import About, Cell, Figure, Rows, Values, Verdict, plan
from .._figures import plot_values
from .._spread import Spread, compare
from ._known_pairs import WIDTH, average_batches, show_one_seed

NATS = 2.0


def measure(cell: Cell) -> Values:
    """Both sides of each step, at the optimal critic."""
    n = cell["n"]

    def read(x: Tensor, y: Tensor, exact: Tensor) -> Mapping[str, Any]:
        log_p, log_r = log_softmax(exact, 1).diagonal(), exact.diagonal()
        r = log_r.exp()
        return {
            "loss": -log_p.mean(),
            "p": log_p.exp().mean(),
            "log_ratio": log_r.mean(),
            "whole": (log_r - (r + n - 1).log()).mean(),
            "third_printed": math.log(n) - ((n - 1) / r).log1p().mean(),
            "third_right": math.log(n) - (r + n - 1).log().mean(),
        }

    means = average_batches(cell, NATS, read)
    first_two = means["log_ratio"] - math.log(n)
    return {
        "loss": means["loss"],
        "loss_printed": -math.log(means["p"]),
        "bound": math.log(n) - means["loss"],
        "bound_printed": math.log(n) + math.log(means["p"]),
        "third_printed": means["third_printed"],
        "third_right": means["third_right"],
        "excess_printed": first_two + means["third_printed"] - means["whole"],
        "excess_right": first_two + means["third_right"] - means["whole"],
    }


def judge(rows: Rows) -> Verdict:
    """Which of the printed steps the numbers contradict."""
    if unknown := show_one_seed(rows):
        return unknown
    small, large = rows.where(n=min(rows["n"])), rows.where(n=max(rows["n"]))
    loss = compare(small["loss"], small["loss_printed"])
    bound, printed = Spread.of(small["bound"]), Spread.of(large["bound_printed"])
    excess, third = (Spread.of(large[k]) for k in ("excess_printed", "third_printed"))
    k, most = small[0]["n"], large[0]["n"]
    findings = {
        f"L exceeds -log E p by {loss} nats at K = {k}": loss.is_above_zero,
        f"step 9 concludes I <= log K - L, where log K - L = {bound} at K = {k} and I "
        f"= {NATS:g}": bound.high < NATS,
        f"if L were -log E p, the bound would be {printed} nats at K = {most}, more "
        "than there are": printed.low > NATS,
        f"the three terms of part VII add up to {excess} nats more than the line that "
        f"they should equal": excess.is_above_zero,
        f"the last of them is {third} at K = {most} and does not approach 0": (
            third.low > 0.1
        ),
    }
    wrong = [sentence for sentence, is_wrong in findings.items() if is_wrong]
    if not wrong:
        return Verdict("holds", "No printed step is contradicted by the numbers.")
    because = "; ".join(wrong)
    return Verdict("formula is wrong", f"{because[0].upper()}{because[1:]}.")


def draw(rows: Rows, figure: Figure) -> None:
    """What the steps give by the number of candidates."""
    left, right = figure.subplots(1, 2)
    for axes, lines in (
        (left, {"bound": "log K - L", "bound_printed": "log K + log E p, as printed"}),
        (right, {"third_right": "K / (r + K - 1)", "third_printed": "as printed"}),
    ):
        plot_values(axes, rows, x="n", lines=lines)
        axes.set(xscale="log", xlabel="candidates K")
    left.axhline(NATS, color="black", linewidth=1)
    left.annotate("the information", (max(rows["n"]), NATS + 0.03), ha="right")
    left.set(title="the bound", ylabel="nats")
    right.axhline(0, color="black", linewidth=1)
    right.annotate("it should approach 0", (min(rows["n"]), 0.03))
    right.set(title="third term of part VII", ylabel="nats")


ABOUT = About(
    where="the proofs of theorems 2 and 4",
    says="The loss is minus the log of the expected probability of a correct choice, "
    "and Jensen's inequality turns this into the bound.",
    run=f"Both sides of each step at the optimal critic, for {WIDTH}-dimensional "
    f"Gaussians that share {NATS:g} nats.",
    refuted_if="A printed equality whose sides differ beyond chance, or an inequality "
    "that is violated beyond chance.",
    sizes=plan(
        tiny={"n": (4, 64), "batches": 20, "seeds": 2},
        quick={"n": (4, 16, 64, 256, 1024), "batches": 60, "seeds": 5},
        full={"n": (4, 16, 64, 256, 1024, 4096), "batches": 100, "seeds": 10},
    ),
    columns={
        "K": "n",
        "L": "loss",
        "-log E p": "loss_printed",
        "log K - L": "bound",
        "log K + log E p": "bound_printed",
        "third term": "third_right",
        "as printed": "third_printed",
    },
    correction=r"""
    1. Steps 2 and part I: $L = -\mathbb E\log p$, and by Jensen's inequality this is
       **at least** $-\log\mathbb E\,p$; the two are equal only if p is constant.
    2. Step 6 replaces $r/(r + K - 1)$ by $r/K$, which is larger wherever $r > 1$, and
       calls the result a lower bound.
    3. Step 9 ends with $I \le \log K - L$ and calls that a lower bound on I. The
       measured $\log K - L$ is below I, as the theorem says.
    4. Part VII: since $\frac{r}{r+K-1} = \frac1K\cdot r\cdot\frac{K}{r+K-1}$, the third
       factor is $\frac{K}{r+K-1}$, which does approach 1 as K grows. The printed
       $\frac{K}{1+(K-1)/r}$ approaches r, so the sum is too large by
       $\mathbb E\log r = I$.
    5. Even when corrected, replacing S by its mean K - 1 gives
       $\mathbb E\log\frac{r}{r+S} \ge \mathbb E\log\frac{r}{r+K-1}$: a floor for
       $\log K - L$, whereas the theorem needs a ceiling.

    The theorem itself is right; any_critic has a proof that is valid.
    """,
)
