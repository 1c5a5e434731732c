r"""InfoNCE: pick each anchor's partner out of the n rows of the other view.

$$L = \frac1n\sum_i \mathrm{softplus}\Big(\log\sum_{j\ne i} e^{s_{ij}} - s_{ii}\Big),
\qquad s_{ij} = u_i\cdot v_j/\tau$$

L >= 0; chance is log n; with independent samples, to which the encoder was not fitted,
log n - L is on average a lower bound of I(U;V), in nats, for any encoder, and can never
pass log n. The symmetric form averages both directions: it is CLIP's loss.
"""

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ..partition import log_partition
from ._contrast import Contrast, cross_entropy, paired_loss
from ._objective import Objective, loss_and_softmax
from ._rows import (
    Number,
    check_positive,
    paired_rows,
    sample_ids,
    tile_precision,
)


def info_nce(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Number = 0.1,
    symmetric: bool = True,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Cross-entropy of finding v_i among all of v (and u_i among all of u).

    >>> import torch
    >>> z = torch.ones(4, 8)
    >>> info_nce(z, z)  # nothing to tell the samples apart: log 4
    tensor(1.3863)
    """
    check_positive("temperature", temperature)
    if symmetric:
        return paired_loss(
            u,
            v,
            cross_entropy,
            fused="cross_entropy",
            temperature=temperature,
            negatives="cross",
            normalize=normalize,
        )
    precision = tile_precision(u, v)
    u, v = paired_rows(u, v, normalize=normalize)
    ids, scale = sample_ids(u), 1 / temperature
    negative = log_partition(
        u, v, scale=scale, row_ids=ids, column_ids=ids, precision=precision
    )
    return softplus(negative - scale * (u * v).sum(1)).mean()


class InfoNCE(Objective):
    """``info_nce`` with its settings."""

    def __init__(
        self,
        temperature: float | int = 0.1,
        *,
        symmetric: bool = True,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        check_positive("temperature", temperature)
        self.temperature = temperature
        self.symmetric = symmetric
        self.normalize = normalize

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return info_nce(
            u,
            v,
            temperature=self.temperature,
            symmetric=self.symmetric,
            normalize=self.normalize,
        )

    def of(self, logits: Contrast) -> Tensor:
        """Cross-entropy of the positive among itself and the negatives."""
        return cross_entropy(logits)

    readings = loss_and_softmax
