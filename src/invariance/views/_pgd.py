r"""Projected gradient ascent (PGD): the small change that raises a loss most.

$$x_{t+1} = \Pi\big(x_t + \alpha\,s(\nabla_x L(x_t))\big),\qquad
\lVert x_t - x\rVert \le \epsilon,\qquad
s_\infty(g) = \operatorname{sign} g,\quad s_2(g) = g / \lVert g\rVert_2$$

Π goes back into the ball around x, and to pixels from 0 to 1; every sample has a ball
of its own. Epsilon and alpha are in units of these pixels: 8/255 is eight steps of a
byte. Only the direction of the gradient counts, so a loss may be multiplied by any
number. For a loss that is linear in x the result is exact: it rises by epsilon times
the dual norm of the gradient, ‖g‖₁ or ‖g‖₂, as long as no pixel reaches 0 or 1.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError, choose
from ..plain_numbers import check_least, check_positive_number
from ..words import count
from ._draws import Draws

EPSILONS = {"linf": 8 / 255, "l2": 128 / 255}
"""What papers on CIFAR take, by norm."""

Images = Float[Tensor, "n ..."]


@dataclass(frozen=True)
class PGD:
    """How far samples may be changed, and by how many steps.

    Args:
        epsilon: Radius of the ball; None is 8/255 of linf and 128/255 of l2.
        steps: Of the ascent.
        step_size: Length of each; None is a quarter of epsilon.
        norm: "linf" or "l2".

    >>> x = torch.full((1, 2), 0.5)
    >>> (worst,) = PGD(epsilon=0.1)(lambda views: (views[0] * x).sum(), [x])
    >>> worst
    tensor([[0.6000, 0.6000]])
    """

    epsilon: float | int | None = None
    steps: int = 5
    step_size: float | int | None = None
    norm: str = "linf"

    def __post_init__(self) -> None:
        choose(EPSILONS, self.norm, "norm")
        check_least("steps", self.steps, 1)
        for name in ("epsilon", "step_size"):
            if (number := getattr(self, name)) is not None:
                check_positive_number(name, number)

    @property
    def radius(self) -> float:
        """Epsilon, or the usual one."""
        return EPSILONS[self.norm] if self.epsilon is None else self.epsilon

    @property
    def length(self) -> float:
        """Of a step."""
        return self.radius / 4 if self.step_size is None else self.step_size

    def __call__(
        self,
        loss: Callable[[list[Images]], Float[Tensor, ""]],
        clean: Sequence[Images],
        start: Sequence[Images] | None = None,
        *,
        within: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> list[Images]:
        """Changed samples, after the last step.

        A batch without a gradient, such as one that only a momentum twin looks at,
        stays as it is.

        Args:
            loss: One number, from batches like ``clean``.
            clean: Batches that are changed at the same time.
            start: Where to begin, see ``start``; None: at the samples themselves.
            within: What each pass and its gradient are computed within.
        """
        changed = list(clean if start is None else start)
        for _ in range(self.steps):
            leaves = [x.detach().requires_grad_() for x in changed]
            with within(), torch.enable_grad():
                value = loss(leaves)
                if not value.requires_grad:
                    raise SettingError(
                        "The loss has no gradient for the samples to be attacked: "
                        "attack views that go through the encoder that is trained."
                    )
                slopes = torch.autograd.grad(value, leaves, allow_unused=True)
            changed = [
                x0 if slope is None else self.move(x0, x.detach(), slope)
                for x0, x, slope in zip(clean, leaves, slopes, strict=True)
            ]
        return changed

    def start(self, clean: Images, draws: Draws) -> Images:
        """A point of each sample's ball, drawn uniformly."""
        n_numbers = clean[0].numel()
        if self.norm == "linf":
            change = self.radius * (2 * draws.uniform(n_numbers) - 1)
        else:
            normal = draws.normal(n_numbers)
            share = draws.uniform(1) ** (1 / n_numbers)
            change = self.radius * share * unit_length(normal)
        # in the layout of the samples, whatever it is
        change = torch.empty_like(clean).copy_(change.view(clean.shape))
        return self.project(clean, clean + change)

    def move(self, clean: Images, changed: Images, slope: Images) -> Images:
        """One step up, and back into the ball."""
        way = slope.sign() if self.norm == "linf" else unit_length(slope)
        return self.project(clean, changed + self.length * way)

    def project(self, clean: Images, changed: Images) -> Images:
        """The nearest point of the ball, with pixels from 0 to 1.

        A pixel beyond 0 or 1, as resizing may make one, may stay where it is.
        """
        change = changed - clean
        if self.norm == "linf":
            change = change.clamp(-self.radius, self.radius)
        else:
            length = lengths(change)
            change = change * (self.radius / length.clamp(min=self.radius))
        least, most = clean.clamp(max=0.0), clean.clamp(min=1.0)
        return (clean + change).clamp(least, most)

    def describe(self) -> str:
        """In words.

        >>> PGD().describe()
        '5 steps of PGD within 0.0314 (linf)'
        """
        return (
            f"{count(self.steps, 'step')} of PGD within {self.radius:.3g} ({self.norm})"
        )


def lengths(x: Images) -> Images:
    """The euclidean length of each sample, with axes to divide it by."""
    flat = x.flatten(1).norm(dim=1)
    return flat.view(-1, *[1] * (x.ndim - 1))


def unit_length(x: Images) -> Images:
    """Each sample divided by its length; one of length 0 stays."""
    least = math.sqrt(torch.finfo(x.dtype).tiny)
    return x / lengths(x).clamp(min=least)
