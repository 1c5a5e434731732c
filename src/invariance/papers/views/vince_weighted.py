"""The weights of VINCE are no constants: with them the choice of negatives is undone.

The paper drops the weights p/q as constants that optimization does not see. They depend
on the negatives, and what the encoder is taught depends on whether they are there.
"""

import math
from typing import Any

import torch

from .._claim import About, Cell, Figure, Rows, Values, Verdict
from .._figures import plot_values
from ._small_world import SIZES, World, expect_value, favor_near, make_world

SAME = 1e-6  # degrees; what float64 leaves of an angle of 0


def find_gradient(
    world: World, critic: torch.Tensor, k: int, law: torch.Tensor, **weights: Any
) -> torch.Tensor:
    """Of the value in every score of the critic."""
    scores = critic.clone().requires_grad_()
    expect_value(world, scores, law, k, **weights).backward()
    assert scores.grad is not None
    return scores.grad


def find_angle(a: torch.Tensor, b: torch.Tensor) -> float:
    """In degrees; 0 where they are proportional."""
    a, b = a / a.norm(), b / b.norm()
    return math.degrees(2 * math.asin(min((a - b).norm().item() / 2, 1)))


def measure(cell: Cell) -> Values:
    """The angles of gradients with that of InfoNCE, and what weighting costs."""
    world, k = make_world(cell.generator()), cell["candidates"]
    half_learned = world.log_ratio / 2  # at the best critic gradients vanish
    law = world.accept(favor_near(world))
    weight = world.marginal / law
    plain = find_gradient(world, half_learned, k, world.marginal)
    weighted = find_gradient(world, half_learned, k, law, weight=weight)
    unweighted = find_gradient(world, half_learned, k, law)
    squares = (law * weight**2).sum(1) ** (k - 1)  # E_q[W^2], by y_1
    return {
        "weighted": find_angle(weighted, plain),
        "unweighted": find_angle(unweighted, plain),
        "effective_share": (world.prior / squares).sum().item(),
    }


def judge(rows: Rows) -> Verdict:
    """If weights could be dropped, gradients would be the same with and without."""
    weighted, unweighted = max(rows["weighted"]), min(rows["unweighted"])
    share = min(rows["effective_share"])
    numbers = (
        f"With weights the gradient is at most {weighted:.0e} degrees away from that "
        f"of InfoNCE, without them at least {unweighted:.0f}"
    )
    if weighted > SAME:
        return Verdict("does not hold", f"{numbers}: the weighting is not exact.")
    if unweighted <= SAME:
        return Verdict("holds", f"{numbers}: dropping the weights changes nothing.")
    return Verdict(
        "formula is wrong",
        f"{numbers}. The two forms are different objectives: the weighted one is "
        f"InfoNCE with an effective sample as small as {share:.0%} of its size, and "
        "the unweighted one trains on hard negatives.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Distance to InfoNCE's gradient, and what weights leave of a sample."""
    left, right = figure.subplots(1, 2)
    ticks = sorted(set(rows["candidates"]))
    labels = {"weighted": "with weights p/q", "unweighted": "without (equation 4)"}
    plot_values(left, rows, x="candidates", lines=labels)
    left.set(
        xlabel="candidates K",
        ylabel="angle with InfoNCE's gradient, degrees",
        ylim=(-1, None),
        xticks=ticks,
    )
    plot_values(
        right, rows, x="candidates", lines={"effective_share": "with weights p/q"}
    )
    right.set(
        xlabel="candidates K",
        ylabel="effective share of a sample",
        ylim=(0, 1.02),
        xticks=ticks,
    )


ABOUT = About(
    where="corollaries 3.1.1 and 3.1.2, equation 4",
    says="As an objective, VINCE does not need its weights and its constant: the forms "
    "with and without them are proportional.",
    run="Worlds of ten places in which every expectation is a finite sum, negatives "
    "that are accepted more often near the positive, a critic half as steep as the "
    "best one; the gradient with respect to every score, with weights, without them, "
    "and of InfoNCE.",
    refuted_if="Gradients without weights that point elsewhere than those with them.",
    sizes=SIZES,
    columns={
        "candidates K": "candidates",
        "angle with weights": "weighted",
        "angle without": "unweighted",
        "effective share": "effective_share",
    },
    correction=r"""
    The factor $W = \prod_{k\ge2} p(y_k)/q(y_k\mid y_1)$ stands inside the expectation
    and depends on the negatives, so it is no constant. Keep it, and
    $\mathbb E_q[W\,T(x, y_{1:K})] = \mathbb E_p[T(x, y_{1:K})]$ for every T and every
    critic: value and expected gradient are those of InfoNCE, whatever q is, and only
    the variance grows, by $\mathbb E_q[W^2] = (\mathbb E_q[(p/q)^2])^{K-1}$. Drop it,
    and the objective is another one: InfoNCE over the negatives that q prefers. That
    can be worth training, but not because of the theorem.
    """,
)
