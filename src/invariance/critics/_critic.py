r"""What a critic is, the small network inside one, and penalties on its slopes.

$$g_{ij} = g(x_i, y_j),\qquad
g^*(x,y) = \log\frac{p(x,y)}{p(x)p(y)} \;(+\,c(x)\text{ for InfoNCE})$$

Rows of the matrix are rows of x, columns are rows of y, so that with paired samples the
diagonal comes from the joint distribution and the rest from the product of marginals.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from ..errors import SettingError, unknown

PAIRS_AT_ONCE = 2**15
"""Pairs that a critic with work for each pair holds at a time on a CPU."""
ON_DEVICE = 2**4
"""Times as many on an accelerator, to keep it busy."""
PENALTIES = ("none", "wgan", "zero")


class Critic(nn.Module):
    """Scores pairs of rows; the larger, the likelier they belong together.

    A critic has ``rows``, or it says itself what the scores are.
    """

    def rows(
        self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]
    ) -> tuple[Float[Tensor, "n d"], Float[Tensor, "m d"]] | None:
        """Rows whose inner products are the scores; None if there are none such.

        They are what ``invariance.partition`` and the objectives sum over.
        """
        return None

    def forward(
        self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]
    ) -> Float[Tensor, "n m"]:
        """The scores of all pairs."""
        a, b = self._require_rows(x, y)
        return a @ b.T

    def score_pairs(
        self, x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]
    ) -> Float[Tensor, " n"]:
        """The scores of row i of x with row i of y only."""
        a, b = self._require_rows(x, y)
        return (a * b).sum(1)

    def _require_rows(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.rows(x, y)
        if rows is None:
            raise NotImplementedError(
                f"{type(self).__name__} needs rows(), or forward() and score_pairs()."
            )
        return rows


def pairs_at_once(x: Tensor) -> int:
    """Pairs whose hidden layers are held at a time."""
    return PAIRS_AT_ONCE if x.device.type == "cpu" else PAIRS_AT_ONCE * ON_DEVICE


def score_in_chunks(
    score: Callable[[Tensor, Tensor], Tensor],
    a: Float[Tensor, "n p"],
    b: Float[Tensor, "m q"],
) -> Float[Tensor, "n m"]:
    """``score(rows of a, b)`` a few rows at a time, so memory does not grow with n m.

    Where gradients are wanted, the chunks are computed again on the way back.
    """
    rows = max(1, pairs_at_once(a) // max(1, len(b)))
    if rows >= len(a):
        return score(a, b)
    again = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    parts = [
        checkpoint(score, part, b, use_reentrant=False) if again else score(part, b)
        for part in a.split(rows)
    ]
    return torch.cat(parts)


def linear(inputs: int, outputs: int, *, spectral_norm: bool = False) -> nn.Module:
    """A linear layer; ``spectral_norm`` divides its matrix by its largest gain.

    Layers of gain one keep the slope of the whole critic bounded, which also caps the
    information it can show.
    """
    layer = nn.Linear(inputs, outputs)
    return parametrizations.spectral_norm(layer) if spectral_norm else layer


def mlp(
    inputs: int, outputs: int, *, width: int, depth: int, spectral_norm: bool = False
) -> nn.Sequential:
    """``depth`` hidden layers of ``width`` units with ReLU, and a linear one."""
    sizes = [inputs, *[width] * depth]
    hidden = [
        part
        for a, b in pairwise(sizes)
        for part in (linear(a, b, spectral_norm=spectral_norm), nn.ReLU())
    ]
    return nn.Sequential(
        *hidden, linear(sizes[-1], outputs, spectral_norm=spectral_norm)
    )


def gradient_penalty(
    critic: Critic,
    x: Float[Tensor, "n dx"],
    y: Float[Tensor, "n dy"],
    *,
    kind: str = "zero",
    generator: Generator | None = None,
) -> Float[Tensor, ""]:
    r"""A penalty on how fast a critic changes; differentiable, to be added to a loss.

    $$P_{\text{wgan}} = E\big(\|\nabla_z g(\hat z)\|-1\big)^2,\qquad
    P_{\text{zero}} = E\|\nabla_z g(z)\|^2,\qquad z = [x, y]$$

    "wgan" pulls slopes to one on lines between joint and product pairs; "zero" pulls
    them to zero at the pairs themselves, which suits critics of f-divergences; "none"
    is 0. Both trade the information a critic can show against its variance.
    """
    if kind not in PENALTIES:
        raise SettingError(unknown("gradient penalty", kind, PENALTIES))
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
        score = critic.score_pairs(a, b).sum()
        slopes = torch.cat(torch.autograd.grad(score, (a, b), create_graph=True), 1)
    if kind == "zero":
        return slopes.square().sum(1).mean()
    # the norm of an all-zero slope has no gradient without the small number
    return ((slopes.square().sum(1) + 1e-12).sqrt() - 1).square().mean()
