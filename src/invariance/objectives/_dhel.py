r"""DHEL: positives attract across views, negatives repel within a view only.

$$L = \frac1n\sum_i\Big(-u_i\cdot v_i/\tau + A_i\Big),\qquad
P^u_i = \log\sum_{j\ne i} e^{u_i\cdot u_j/\tau}$$

with $A = P^u$ ("first"), $(P^u + P^v)/2$ ("mean", both directions averaged) or
$P^u + P^v$ ("sum", the authors' released code: twice the weight on spreading). Neither
the positive nor the other view is in a denominator, so alignment and spreading are
decoupled. For n <= d + 1 the optimum is u = v = a regular simplex, cosine -1/(n - 1).
"""

from jaxtyping import Float
from torch import Tensor

from ..partition import log_partition
from ._contrast import Contrast, decoupled, paired_loss, with_negatives
from ._objective import Objective, loss_and_softmax
from ._rows import (
    Number,
    check_choice,
    check_positive,
    paired_rows,
    sample_ids,
    tile_precision,
)

VIEWS = ("mean", "sum", "first")


def dhel(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Number = 0.3,
    views: str = "mean",
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Within-view log-partition minus the positive's logit.

    >>> import torch
    >>> z = torch.eye(3)
    >>> dhel(z, z, temperature=1.0)  # log 2 - 1
    tensor(-0.3069)
    """
    check_positive("temperature", temperature)
    check_choice("views", views, VIEWS)
    if views == "first":
        return _first(u, v, temperature=temperature, normalize=normalize)
    return paired_loss(
        u,
        v,
        decoupled if views == "mean" else _summed,
        fused="decoupled" if views == "mean" else None,
        temperature=temperature,
        negatives="within",
        normalize=normalize,
    )


def _summed(logits: Contrast) -> Tensor:
    return (logits.first.sum(0) - logits.positive[0]).mean()


def _first(u: Tensor, v: Tensor, *, temperature: Number, normalize: bool) -> Tensor:
    precision = tile_precision(u, v)
    u, v = paired_rows(u, v, normalize=normalize)
    ids, scale = sample_ids(u), 1 / temperature
    spread = log_partition(
        u, u, scale=scale, row_ids=ids, column_ids=ids, precision=precision
    )
    return (spread - scale * (u * v).sum(1)).mean()


class DHEL(Objective):
    """``dhel`` with its settings."""

    def __init__(
        self,
        temperature: float | int = 0.3,
        *,
        views: str = "mean",
        normalize: bool = True,
    ) -> None:
        super().__init__()
        check_positive("temperature", temperature)
        check_choice("views", views, VIEWS)
        self.temperature = temperature
        self.views = views
        self.normalize = normalize

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return dhel(
            u,
            v,
            temperature=self.temperature,
            views=self.views,
            normalize=self.normalize,
        )

    def of(self, logits: Contrast) -> Tensor:
        """Log-partition minus positive: a source stands for the anchor's own view."""
        return decoupled(with_negatives(logits))

    readings = loss_and_softmax
