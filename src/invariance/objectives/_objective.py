"""What the class of an objective offers beside its value."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..errors import SettingError
from ..partition import log_partitions
from ._contrast import Contrast, Source, contrast_against
from ._rows import (
    Number,
    anchor_rows,
    full_precision,
    paired_rows,
    sample_ids,
    tile_precision,
)


class Objective(nn.Module):
    """Settings checked once, ``forward`` calling the function, and what to log.

    A softmax objective is algebra on two numbers an anchor, its positive's logit and
    its negatives' log-partition. It says so in ``of``, and then takes its negatives
    from any source as well: ``against``.
    """

    @property
    def powers(self) -> tuple[float | int, ...]:
        """Factors on the logits at which ``of`` needs log-partitions; 0 counts."""
        return (1.0,)

    def of(self, logits: Contrast) -> Tensor:
        """The loss of anchors whose logits are known."""
        raise SettingError(no_softmax(self))

    def against(
        self, u: Tensor, v: Tensor | None, source: Source, ids: Tensor
    ) -> Tensor:
        """The loss of anchors u with positives v against the negatives of a source.

        Args:
            u: Anchors (n, d), one row a sample.
            v: Their positives (n, d); None where the source holds them (a bank does).
            source: A queue, a memory bank or another of ``invariance.negatives``.
            ids: Which sample each anchor is, so that it is never its own negative.
        """
        if type(self).of is Objective.of:
            raise SettingError(no_softmax(self))
        settings: Any = self
        u, v = anchor_rows(u, v, ids, normalize=settings.normalize)
        with full_precision(u):
            logits = contrast_against(
                source, u, v, ids, temperature=settings.temperature, powers=self.powers
            )
            return self.of(logits)

    def readings(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Numbers worth logging for a batch, by name; takes what ``forward`` takes."""
        with torch.no_grad():
            return {"loss": float(self(*args, **kwargs))}

    def extra_repr(self) -> str:
        """The settings, for ``print``."""
        plain = {k: v for k, v in vars(self).items() if k[0] != "_" and k != "training"}
        return ", ".join(f"{name}={value!r}" for name, value in plain.items())


def takes_sources(objective: Objective) -> bool:
    """Whether ``against`` works."""
    kind = type(objective)
    own = kind.against is not Objective.against
    return own or kind.of is not Objective.of


def no_softmax(objective: Objective) -> str:
    """Why an objective cannot be put against a source."""
    return (
        f"{type(objective).__name__} has no softmax over negatives that a queue or a "
        "memory bank could provide: use info_nce, nt_xent, dcl, dhel, flat_nce, "
        "debiased, binary_nce, multi_view or sup_con, or take negatives from the batch."
    )


@torch.no_grad()
def softmax_readings(
    u: Tensor, v: Tensor, *, temperature: Number, normalize: bool = True
) -> dict[str, float]:
    """What a softmax over the other view says of a batch, for any objective.

    ``info_nce`` is the loss of picking u's partner out of the n rows of v; ``mi_nats``
    is log n - info_nce, a certified lower bound of the mutual information of the two
    views (in expectation, on samples that the encoder was not fitted to) that cannot
    pass ``mi_ceiling`` = log n; ``ess`` is the effective share of the negatives, from
    1/(n - 1) (one negative holds all the weight) to 1 (all equal).
    """
    precision = tile_precision(u, v)
    u, v = paired_rows(u, v, normalize=normalize)
    n, ids, scale = len(u), sample_ids(u), 1 / float(temperature)
    once, twice = log_partitions(
        u,
        v,
        scales=[scale, 2 * scale],
        row_ids=ids,
        column_ids=ids,
        precision=precision,
    )
    loss = float(softplus(once - scale * (u * v).sum(1)).mean())
    return {
        "info_nce": loss,
        "mi_nats": math.log(n) - loss,
        "mi_ceiling": math.log(n),
        "ess": float((2 * once - twice).exp().mean()) / (n - 1),
    }


def loss_and_softmax(self: Any, u: Tensor, v: Tensor) -> dict[str, float]:
    """The loss, the certified information with its ceiling, and the ESS.

    The ``readings`` of two-view softmax objectives, which have a ``temperature`` and
    ``normalize``.
    """
    softmax = softmax_readings(
        u, v, temperature=self.temperature, normalize=self.normalize
    )
    return Objective.readings(self, u, v) | softmax
