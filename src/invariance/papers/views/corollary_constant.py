"""Replacing weights by their smallest value is no lower bound.

It would be one if what is weighted were never negative. It is the logarithm of a
softmax probability times K, and below 0 wherever the critic is wrong.
"""

import torch

from .._claim import About, Cell, Figure, Rows, Values, Verdict, grid
from ._small_world import PLACES, expect_value, info_nce_value, make_world

CRITICS = ("exact", "noise", "reversed")
ROUNDING = 1e-9


def measure(cell: Cell) -> Values:
    """The weighted value, and the one with the constant c, both without - K + 1."""
    generator, k = cell.generator(), cell["candidates"]
    world = make_world(generator)
    exact = world.log_ratio
    critic = {
        "exact": exact,
        "noise": 2 * torch.randn(exact.shape, generator=generator, dtype=exact.dtype),
        "reversed": -exact,
    }[cell["critic"]]
    uniform = torch.full_like(exact, 1 / PLACES)
    smallest = (world.marginal / uniform).min().item()
    value = info_nce_value(world, critic, k).item()  # what weights p/q give exactly
    lower = smallest ** (k - 1) * expect_value(world, critic, uniform, k).item()
    return {"weighted": value, "constant": lower, "excess": lower - value}


def judge(rows: Rows) -> Verdict:
    """The constant form may never be above the weighted one."""
    wrong = [row for row in rows if row["excess"] > ROUNDING]
    if not wrong:
        return Verdict(
            "holds",
            f"In none of {len(rows)} cases is the value with the constant above the "
            "weighted one.",
        )
    worst = max(wrong, key=lambda row: row["excess"])
    critics = list(dict.fromkeys(row["critic"] for row in wrong))
    return Verdict(
        "formula is wrong",
        f"With the constant the value is above the weighted one in {len(wrong)} of "
        f"{len(rows)} cases, by up to {worst['excess']:.2f} nats (critics: "
        f"{', '.join(critics)}).",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """One value against the other: points above the line refute."""
    axes = figure.subplots()
    low, high = min(rows["weighted"]) - 0.2, max(rows["weighted"]) + 0.2
    axes.fill_between([low, high], [low, high], high, color="C3", alpha=0.08, lw=0)
    axes.plot([low, high], [low, high], color="black", linewidth=1)
    for k, critic in enumerate(dict.fromkeys(rows["critic"])):
        part = rows.where(critic=critic)
        axes.plot(
            part["weighted"], part["constant"], ".", color=f"C{k}", label=critic, ms=7
        )
    axes.annotate("not allowed by the corollary", (low + 0.05, high - 0.25), color="C3")
    axes.set(xlabel="weighted value, nats", ylabel="value with c, nats")
    axes.legend(frameon=False, title="critic", loc="lower right")


ABOUT = About(
    where="corollary 3.1.2, example 3",
    says="The weights can be replaced by c, the product of the smallest values of p/q, "
    "and the result is a lower bound of VINCE.",
    run="Worlds of ten places in which every expectation is a finite sum; negatives "
    "drawn evenly from all places (example 3); the best critic, a random one, and the "
    "best one with its sign reversed. The - K + 1, which is the same on both sides, is "
    "left out.",
    refuted_if="A value with c above the weighted one.",
    sizes={
        "tiny": grid(critic=CRITICS, candidates=(2,), seed=range(2)),
        "quick": grid(critic=CRITICS, candidates=(2, 4), seed=range(10)),
        "full": grid(critic=CRITICS, candidates=(2, 3, 4, 5), seed=range(50)),
    },
    columns={
        "critic": "critic",
        "candidates K": "candidates",
        "weighted, nats": "weighted",
        "with c, nats": "constant",
    },
    correction=r"""
    The proof multiplies $W \ge c$ by
    $T = \log(e^{g_1}/\frac1K\sum_k e^{g_k})$ and keeps the direction of the inequality,
    which needs $T \ge 0$. T is negative wherever a negative outscores the positive, as
    with any critic that is not yet trained; there $W T \le c\,T$. Since
    $0 < c \le 1$, the constant pulls a negative value towards 0, that is, upwards.

    Nor is it a bound of the mutual information. Let y be a or b with probabilities 0.9
    and 0.1, x independent of it ($I = 0$), negatives drawn evenly, and the critic 2 at
    a and 0 at b. With K = 2, T is 0 where both candidates are the same,
    $\log\frac{2e^2}{e^2+1} = 0.57$ where the positive is a and the negative b, and
    $-1.43$ the other way round. Hence
    $c\,\mathbb E_q[T] = 0.2\,(0.9\cdot0.5\cdot0.57 - 0.1\cdot0.5\cdot1.43) = 0.04$
    nats, where there are 0. Only the - K + 1 that the paper also subtracts keeps it
    below.
    """,
)
