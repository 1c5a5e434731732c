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
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..checked_rows import is_transforming
from ..errors import SettingError
from ..partition import (
    gather_last,
    log_partition,
    log_partitions,
    row_sums,
    softplus,
    take_whole_gradient,
)
from ._batch import (
    Batch,
    anchor_rows,
    check_tensor,
    full_precision,
    read_pair,
    take_share,
)
from ._contrast import Source, warn_if_alone
from ._declared_settings import (
    Gather,
    Number,
    Reduction,
    Temperature,
    check_number_or_tensor,
    check_settings,
    optional,
    reduce,
    settings_of,
)
from ._learned_temperature import scale_of
from ._objective import Objective, softmax_readings
from ._sig_lip import questions


@check_settings
def binary_nce(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.07,
    log_z: Annotated[Number | None, optional(check_number_or_tensor)] = None,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Tell v_i from the other rows of v, one by one.

    >>> import torch
    >>> z = torch.ones(3, 8)
    >>> binary_nce(z, z)  # log 3 + 2 log 1.5
    tensor(1.9095)
    """
    batch = read_pair(u, v, normalize=normalize, gather=gather)
    scale = scale_of(temperature)
    log_z = _mean_partition(batch, scale) if log_z is None else log_z
    return reduce(_tell_apart(batch, scale, log_z), reduction)


def _tell_apart(batch: Batch, scale: Number, log_z: Number) -> Float[Tensor, " n"]:
    bias = -(log_z + math.log(batch.n - 1))
    alike, unlike = questions(batch, scale, bias)
    return alike + unlike


@torch.no_grad()
def _mean_partition(batch: Batch, scale: Number) -> Tensor:
    """Log of the mean of e^s over the noise of all anchors."""
    u, v = batch.views
    longest = batch.longest
    total = log_partition(u, v, scale=scale, longest=longest, **batch.pairing)
    return total.logsumexp(0) - math.log(batch.n * (batch.n - 1))


class BinaryNCE(Objective):
    """``binary_nce`` with its settings; the constant is that of its first batch."""

    __init__ = settings_of(binary_nce)
    function_only = ("log_z",)
    takes_critic = True
    needs_plain_noise = True
    log_z: Tensor

    def make_state(self) -> None:
        """The constant, not known yet."""
        self.register_buffer("log_z", torch.tensor(math.nan))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        batch = read_pair(u, v, normalize=self.normalize, gather=self.gather)
        scale = scale_of(self.temperature)
        log_z = self._prefer_known(_mean_partition(batch, scale))
        loss = reduce(_tell_apart(batch, scale, log_z), self.reduction)
        return self._keep(log_z, self.require_finite(loss))

    def against(
        self, u: Tensor, v: Tensor | None, source: Source, ids: Tensor
    ) -> Tensor:
        """The loss with the rows of a queue or a bank as noise."""
        if not getattr(source, "plain", False):
            raise SettingError(
                "binary_nce asks about each row of the noise by itself, without bands "
                "of scores, weights or clusters: take it from a queue or a bank."
            )
        check_tensor(u, "u")
        share = take_share(u, self.gather)
        u, v = anchor_rows(u, v, ids, normalize=self.normalize, share=share)
        scale = take_whole_gradient(scale_of(self.temperature), share)
        with full_precision(u):
            noise = source.candidates(u, ids)
            if not len(noise.z):
                raise SettingError("There is no noise yet: remember a first batch.")
            kinds = {"row_ids": ids, "column_ids": noise.ids}
            with torch.no_grad():
                scales = [scale, 0.0]
                total, log_count = log_partitions(u, noise.z, scales=scales, **kinds)
            everyone = [gather_last(x, share).logsumexp(0) for x in (total, log_count)]
            log_z = self._prefer_known(everyone[0] - everyone[1])
            warn_if_alone(everyone[1])
            # where there is no noise there is no constant either
            offset = (log_z + log_count).masked_fill(log_count.isinf(), -torch.inf)
            rows = torch.cat([scale * u, -offset[:, None]], 1)
            columns = torch.cat([noise.z, torch.ones_like(noise.z[:, :1])], 1)
            unlike = row_sums(rows, columns, "softplus", **kinds)
            positive = source.positive(u, v, ids, scale=scale)
            losses = gather_last(softplus(offset - positive) + unlike, share)
            loss = reduce(losses, self.reduction)
        return self._keep(log_z, self.require_finite(loss))

    def chance(self, n: int, n_views: int = 2) -> float:
        """One question about the partner and n - 1 about noise, all undecided."""
        return math.log(n) + (n - 1) * math.log1p(1 / (n - 1))

    @torch.no_grad()
    def readings(self, *inputs: Any) -> dict[str, float]:
        """The loss with the batch's own constant, and the information."""
        loss = float(binary_nce(*inputs, **self.settings).mean())
        u, v = inputs
        return {"loss": loss} | softmax_readings(u, v, self)

    def _prefer_known(self, log_z: Tensor) -> Tensor:
        """The constant; this batch's if there was none before, without a branch."""
        new = log_z.to(self.log_z)
        return torch.where(self.log_z.isnan(), new, self.log_z).to(log_z)

    def _keep(self, log_z: Tensor, loss: Tensor) -> Tensor:
        """Remember the constant of a batch whose loss this is.

        Not within torch.func's transforms, which may change nothing.
        """
        if not is_transforming():
            self.log_z.copy_(log_z)
        return loss
