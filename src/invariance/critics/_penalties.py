r"""Gradient penalties: critics that do not change too fast.

$$P_{\text{wgan}} = E\big(\|\nabla_z g(\hat z)\|-1\big)^2,\qquad
P_{\text{zero}} = E\|\nabla_z g(z)\|^2,\qquad z = [x, y]$$

The first pulls slopes to one on lines between joint and product pairs; the second pulls
them to zero at the pairs themselves, which is what suits critics of f-divergences. Both
trade the information a critic can show against its variance.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from ..errors import choose
from ._critic import Critic

Penalty = Literal["none", "wgan", "zero"]
PENALTIES = {"none": 0, "wgan": 1, "zero": 2}


def gradient_penalty(
    critic: Critic,
    x: Float[Tensor, "n dx"],
    y: Float[Tensor, "n dy"],
    *,
    kind: str = "zero",
    generator: Generator | None = None,
) -> Float[Tensor, ""]:
    """The penalty on paired rows; differentiable, so it can be added to a loss."""
    choose(PENALTIES, kind, "gradient penalty")
    if kind == "none":
        return x.new_zeros(())
    other = y.roll(1, 0)  # rows of another sample: pairs from the product
    if kind == "wgan":
        t = torch.rand(len(x), 1, generator=generator, dtype=x.dtype).to(x.device)
        a, b = x, t * y + (1 - t) * other
    else:
        a, b = torch.cat([x, x]), torch.cat([y, other])
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
    with torch.enable_grad():
        score = critic.paired(a, b).sum()
        slopes = torch.cat(torch.autograd.grad(score, (a, b), create_graph=True), 1)
    if kind == "zero":
        return slopes.square().sum(1).mean()
    # the norm of an all-zero slope has no gradient without the small number
    return ((slopes.square().sum(1) + 1e-12).sqrt() - 1).square().mean()
