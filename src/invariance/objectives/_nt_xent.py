r"""NT-Xent, SimCLR's loss: each view picks its partner out of all 2n - 1 other rows.

$$L = \frac1{2n}\sum_{a} \mathrm{softplus}\Big(\log\sum_{k\notin\{a,\mathrm{pos}(a)\}}
e^{z_a\cdot z_k/\tau} - z_a\cdot z_{\mathrm{pos}(a)}/\tau\Big),\qquad z = [u; v]$$

L >= 0; chance is log(2n - 1). The two views of a negative are correlated, so
log(2n - 1) - L is no bound of the mutual information; ``readings`` gives one that is.
"""

from jaxtyping import Float
from torch import Tensor

from ._contrast import Contrast, cross_entropy, paired_loss
from ._objective import Objective, loss_and_softmax
from ._rows import Number, check_positive


def nt_xent(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Number = 0.5,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Cross-entropy of finding the other view among the 2n - 1 other rows.

    >>> import torch
    >>> z = torch.ones(4, 8)
    >>> nt_xent(z, z)  # log 7
    tensor(1.9459)
    """
    check_positive("temperature", temperature)
    return paired_loss(
        u,
        v,
        cross_entropy,
        fused="cross_entropy",
        temperature=temperature,
        negatives="all",
        normalize=normalize,
    )


class NTXent(Objective):
    """``nt_xent`` with its settings."""

    def __init__(
        self, temperature: float | int = 0.5, *, normalize: bool = True
    ) -> None:
        super().__init__()
        check_positive("temperature", temperature)
        self.temperature = temperature
        self.normalize = normalize

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return nt_xent(u, v, temperature=self.temperature, normalize=self.normalize)

    def of(self, logits: Contrast) -> Tensor:
        """Cross-entropy of the positive among itself and the negatives."""
        return cross_entropy(logits)

    readings = loss_and_softmax
