r"""Binary NCE: is this row the anchor's positive, or noise? Instance Discrimination's.

$$L = \frac1n\sum_i\Big(\mathrm{softplus}(c - s_i) + \sum_{j\in\text{noise}}
\mathrm{softplus}(s_{ij} - c)\Big),\qquad c = \log\bar Z + \log k$$

k is the number of noise rows and $\bar Z$ the mean of $e^{s}$ over noise, a constant
that turns exponentials into probabilities. The original freezes it after the first
batch; so does ``BinaryNCE``, and keeps it in its state. The function estimates it from
the batch, without gradient, unless ``log_z`` is given. All rows equal: with k noise
rows the loss is log(1 + k) + k log(1 + 1/k). It is SigLIP with a bias of -c.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ..errors import SettingError
from ..partition import log_partition, log_partitions, row_sums
from ._contrast import Source
from ._objective import Objective, softmax_readings
from ._rows import (
    Number,
    anchor_rows,
    check_positive,
    full_precision,
    longest_row,
    paired_rows,
    sample_ids,
    tile_precision,
)
from ._sig_lip import questions


def binary_nce(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Number = 0.07,
    log_z: Number | None = None,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Tell v_i from the other rows of v, one by one.

    >>> import torch
    >>> z = torch.ones(3, 8)
    >>> binary_nce(z, z)  # log 3 + 2 log 1.5
    tensor(1.9095)
    """
    check_positive("temperature", temperature)
    precision, scale = tile_precision(u, v), 1 / temperature
    u, v = paired_rows(u, v, normalize=normalize)
    if log_z is None:
        log_z = _mean_partition(u, v, scale, longest_row(normalize), precision)
    return _told_apart(u, v, scale, log_z, precision)


def _told_apart(
    u: Tensor, v: Tensor, scale: Number, log_z: Number, precision: str
) -> Tensor:
    offset = log_z + math.log(len(u) - 1)
    return questions(u, v, scale=scale, bias=-offset, precision=precision)


@torch.no_grad()
def _mean_partition(
    u: Tensor, v: Tensor, scale: Number, longest: float, precision: str
) -> Tensor:
    ids = sample_ids(u)
    total = log_partition(
        u,
        v,
        scale=scale,
        row_ids=ids,
        column_ids=ids,
        longest=longest,
        precision=precision,
    ).logsumexp(0)
    return total - math.log(len(u) * (len(u) - 1))


class BinaryNCE(Objective):
    """``binary_nce`` with its settings; the constant is that of its first batch."""

    log_z: Tensor

    def __init__(
        self, temperature: float | int = 0.07, *, normalize: bool = True
    ) -> None:
        super().__init__()
        check_positive("temperature", temperature)
        self.temperature = temperature
        self.normalize = normalize
        self.register_buffer("log_z", torch.tensor(math.nan))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        precision, scale = tile_precision(u, v), 1 / self.temperature
        u, v = paired_rows(u, v, normalize=self.normalize)
        longest = longest_row(self.normalize)
        log_z = self._frozen(_mean_partition(u, v, scale, longest, precision))
        return _told_apart(u, v, scale, log_z, precision)

    def against(
        self, u: Tensor, v: Tensor | None, source: Source, ids: Tensor
    ) -> Tensor:
        """The loss with the rows of a queue or a bank as noise."""
        if not getattr(source, "plain", False):
            raise SettingError(
                "binary_nce asks about each row of the noise by itself, without bands "
                "of scores, weights or clusters: take it from a queue or a bank."
            )
        u, v = anchor_rows(u, v, ids, normalize=self.normalize)
        scale = 1 / self.temperature
        with full_precision(u):
            found = source.candidates(u, ids)
            if not len(found.z):
                raise SettingError("There is no noise yet: remember a first batch.")
            kinds = {"row_ids": ids, "column_ids": found.ids}
            with torch.no_grad():
                scales = [scale, 0.0]
                total, log_count = log_partitions(u, found.z, scales=scales, **kinds)
            log_z = self._frozen(total.logsumexp(0) - log_count.logsumexp(0))
            offset = log_z + log_count
            rows = torch.cat([scale * u, -offset[:, None]], 1)
            columns = torch.cat([found.z, torch.ones_like(found.z[:, :1])], 1)
            noise = row_sums(rows, columns, "softplus", **kinds)
            positive = source.positive(u, v, ids, scale=scale)
            return (softplus(offset - positive) + noise).mean()

    def readings(self, u: Tensor, v: Tensor) -> dict[str, float]:
        """The loss with the batch's own constant, certified information and ESS."""
        kinds: Any = {"temperature": self.temperature, "normalize": self.normalize}
        loss = float(binary_nce(u.detach(), v.detach(), **kinds))
        return {"loss": loss, **softmax_readings(u, v, **kinds)}

    def _frozen(self, log_z: Tensor) -> Tensor:
        """The constant: this batch's if there was none before, without a branch."""
        self.log_z.copy_(torch.where(self.log_z.isnan(), log_z, self.log_z))
        return self.log_z.to(log_z)
