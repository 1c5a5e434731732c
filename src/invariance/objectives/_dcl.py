r"""DCL, the decoupled loss: InfoNCE without the positive in the denominator.

$$L = \frac1{2n}\sum_a \Big(\log\sum_{k\in N(a)} e^{z_a\cdot z_k/\tau}
- w_a\,z_a\cdot z_{\mathrm{pos}(a)}/\tau\Big)$$

N(a) is the 2n - 2 rows of other samples ("all") or the n - 1 of them in the other view
("cross"). Dropping the positive takes the factor 1 - p off InfoNCE's gradient, which
vanishes when a batch is small or solved. w is 1, or with ``weight_sigma`` (DCLW)
$w_i = 2 - n\,\mathrm{softmax}_k(u_k\cdot v_k/\sigma)_i$: mean 1, more weight to pairs
far apart, a weight and hence detached (one public code differentiates through it).

L can be negative and has no floor; it is neither capped by log n nor a bound of the
mutual information.
"""

from functools import partial

from jaxtyping import Float
from torch import Tensor

from ._contrast import NEGATIVES, Contrast, decoupled, paired_loss, with_negatives
from ._objective import Objective, loss_and_softmax
from ._rows import Number, check_choice, check_positive


def dcl(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Number = 0.1,
    negatives: str = "all",
    weight_sigma: float | int | None = None,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Log-partition over the negatives minus the positive's logit.

    >>> import torch
    >>> z = torch.eye(4)
    >>> dcl(z, z, temperature=1.0)  # six orthogonal negatives: log 6 - 1
    tensor(0.7918)
    """
    _check(temperature, negatives, weight_sigma)
    return paired_loss(
        u,
        v,
        partial(_weighted, temperature=temperature, weight_sigma=weight_sigma),
        fused="decoupled" if weight_sigma is None else None,
        temperature=temperature,
        negatives=negatives,
        normalize=normalize,
    )


def _weighted(
    logits: Contrast, temperature: Number, weight_sigma: float | int | None
) -> Tensor:
    positive = logits.positive
    if weight_sigma is not None:
        cosine = (temperature * positive).detach()
        nearness = (cosine / weight_sigma).softmax(-1)
        positive = positive * (2 - positive.shape[-1] * nearness)
    return decoupled(logits._replace(positive=positive))


def _check(
    temperature: Number, negatives: str, weight_sigma: float | int | None
) -> None:
    check_positive("temperature", temperature)
    check_choice("negatives", negatives, NEGATIVES)
    if weight_sigma is not None:
        check_positive("weight_sigma", weight_sigma)


class DCL(Objective):
    """``dcl`` with its settings; a ``weight_sigma`` (the paper: 0.5) makes it DCLW."""

    def __init__(
        self,
        temperature: float | int = 0.1,
        *,
        negatives: str = "all",
        weight_sigma: float | int | None = None,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        _check(temperature, negatives, weight_sigma)
        self.temperature = temperature
        self.negatives = negatives
        self.weight_sigma = weight_sigma
        self.normalize = normalize

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return dcl(
            u,
            v,
            temperature=self.temperature,
            negatives=self.negatives,
            weight_sigma=self.weight_sigma,
            normalize=self.normalize,
        )

    def of(self, logits: Contrast) -> Tensor:
        """Log-partition minus the (weighted) positive."""
        return _weighted(with_negatives(logits), self.temperature, self.weight_sigma)

    readings = loss_and_softmax
