r"""A world so small that every expectation of the views paper is a finite sum.

y is one of a few places on a circle, x the same place seen through noise. Negatives are
drawn from a law q(y | y_1), a table. With K candidates

$$E\Big[W \log\frac{e^{g(x,y_1)}}{\frac1K\sum_k e^{g(x,y_k)}}\Big],\qquad
W = \prod_{k\ge2} w(y_k\mid y_1)$$

is added up over all places of all candidates, so nothing is left to chance but the
world itself, which differs from seed to seed.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._claim import Rows, plan
from .._figures import plot_values

PLACES = 10
SIZES = plan(
    candidates=(2, 3, 4, 5),
    tiny={"candidates": (2, 3), "seeds": 2},
    quick={"seeds": 10},
    full={"seeds": 100},
)


@dataclass(frozen=True)
class World:
    """Tables by place of y, and of x."""

    prior: Tensor
    """p(y)."""
    seen: Tensor
    """p(x | y), a row per y."""

    @property
    def joint(self) -> Tensor:
        """p(y, x)."""
        return self.prior[:, None] * self.seen

    @property
    def log_ratio(self) -> Tensor:
        """The best critic, log p(x | y) / p(x), a row per y."""
        return (self.seen / self.joint.sum(0)).log()

    @property
    def nats(self) -> float:
        """The mutual information, exactly."""
        return float((self.joint * self.log_ratio).sum())

    @property
    def distance(self) -> Tensor:
        """Steps along the circle from place to place."""
        steps = (torch.arange(PLACES)[:, None] - torch.arange(PLACES)).abs()
        return torch.minimum(steps, PLACES - steps)

    def accept(self, probability: Tensor) -> Tensor:
        """The law q = r p / Z of negatives that are kept with this probability r."""
        kept = probability * self.prior
        return kept / kept.sum(1, keepdim=True)

    @property
    def marginal(self) -> Tensor:
        """The law of negatives that nobody chose: p(y), whatever y_1 is."""
        return self.prior.expand(PLACES, PLACES)


def make_world(generator: torch.Generator) -> World:
    """Places that are not equally likely, seen through noise 0.8 to 1.8 steps wide."""
    prior = torch.randn(PLACES, generator=generator, dtype=torch.float64)
    noise = 0.8 + torch.rand((), generator=generator, dtype=torch.float64)
    steps = World(prior, prior).distance.double()
    return World(prior.softmax(0), (-((steps / noise) ** 2) / 2).softmax(1))


def favor_near(world: World) -> Tensor:
    """A soft acceptance r(y | y_1): surely at y_1 itself, at least one in five."""
    return 0.2 + 0.8 * (-(world.distance.double() ** 2) / 2).exp()


def expect_value(
    world: World,
    critic: Tensor,
    law: Tensor,
    candidates: int,
    *,
    weight: Tensor | None = None,
    with_positive: bool = True,
) -> Tensor:
    """The expectation above, in nats; differentiable.

    Args:
        world: Where.
        critic: g, a row per y and a column per x.
        law: q(y | y_1), a row per y_1.
        candidates: K, the positive included.
        weight: w(y | y_1); 1 by default.
        with_positive: Whether the sum over candidates has the positive in it; without,
            it is a mean of K - 1.
    """
    height = critic.exp()
    total = height if with_positive else torch.zeros_like(height)
    probability = world.joint
    chosen = law if weight is None else law * weight
    for _ in range(candidates - 1):
        over = (slice(None), None) + (None,) * (total.dim() - 2)
        probability = probability[..., None] * chosen[over]
        across = (None, slice(None)) + (None,) * (total.dim() - 2)
        total = total[..., None] + height.T[across]
    n = candidates if with_positive else candidates - 1
    positive = critic[(...,) + (None,) * (candidates - 1)]
    # choices that never happen may have nothing in their sum
    terms = torch.where(probability > 0, positive - total.log() + math.log(n), 0.0)
    return (probability * terms).sum()


def info_nce_value(world: World, critic: Tensor, candidates: int) -> Tensor:
    """With negatives that nobody chose: at most the mutual information."""
    return expect_value(world, critic, world.marginal, candidates)


def plot_by_candidates(axes: Any, rows: Rows, lines: dict[str, str]) -> None:
    """Values by the number of candidates, each a line with its label."""
    plot_values(axes, rows, x="candidates", lines=lines)
    axes.set_xticks(sorted(set(rows["candidates"])))
    axes.set(xlabel="candidates K", ylabel="value, nats")
