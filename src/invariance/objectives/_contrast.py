"""The two numbers every two-view softmax objective is made of.

For each anchor: the logit of its positive, and the log-partition over its negatives.
The positive stays outside the partition, where its precision does not depend on the
negatives. Where these come from is not the objective's business: ``paired_loss`` takes
them from the batch (2n anchors, u's rows first), ``Objective.against`` from a source
such as a queue or a memory bank (n anchors).
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..checked_rows import may_look
from ..errors import SettingError, warn_caller
from ..partition import (
    fused_loss,
    log_partitions,
    softplus,
    split_views,
    two_sided_log_partition,
)
from ._batch import Batch, make_batch, share_pair
from ._declared_settings import Number, one_of, reduce
from ._learned_temperature import largest_scale, scale_of

# what users choose from; "within" is DHEL's
Negatives = Annotated[str, one_of("all", "cross")]


class Contrast(NamedTuple):
    """Logits of a batch of anchors."""

    positive: Float[Tensor, "*a"]
    negative: Float[Tensor, "k *a"]
    log_count: float | Float[Tensor, "*a"]
    """Log of the number of negatives."""

    @property
    def first(self) -> Tensor:
        """The log-partition at the first power."""
        # squeezing is free to differentiate, indexing fills a tensor with zeros
        one = self.negative.shape[0] == 1
        return self.negative.squeeze(0) if one else self.negative[0]


Anchors = Float[Tensor, "n d"]
Ids = Int[Tensor, " n"]


@runtime_checkable
class Source(Protocol):
    """Who the anchors are compared with; ``invariance.negatives`` has them."""

    def candidates(self, u: Anchors, ids: Ids) -> Any:
        """Rows ``z`` with ``ids``, and a band of scores ``low`` to ``high`` or None."""

    def positive(
        self, u: Anchors, v: Anchors | None, ids: Ids, *, scale: Number
    ) -> Float[Tensor, " n"]:
        """Logits of the anchors' positives."""

    def negative(
        self, u: Anchors, ids: Ids, *, scales: list[Number]
    ) -> Float[Tensor, "k n"]:
        """Log-partitions of the anchors over their negatives; scale 0 counts them."""

    def logits(
        self,
        u: Anchors,
        v: Anchors | None,
        ids: Ids,
        *,
        scale: Number,
        scales: list[Number],
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "k n"]]:
        """Logits of the anchors' positives, and the negatives' log-partitions."""


def check_source(source: object) -> None:
    """Raise unless negatives can be had from it."""
    if isinstance(source, type):
        raise SettingError(
            f"Negatives come from a source that was made: got the class "
            f"{source.__name__}. Make one first, and let it remember rows."
        )
    if not isinstance(source, Source):
        raise SettingError(
            "Negatives come from a source such as inv.Queue or inv.Bank: got "
            f"{'None' if source is None else type(source).__name__}."
        )


def paired_loss(
    u: Tensor,
    v: Tensor,
    formula: Callable[[Contrast], Tensor],
    *,
    fused: str | None,
    parameters: tuple[float, ...] = (),
    temperature: Any,
    negatives: str,
    both: bool = True,
    powers: tuple[float | int, ...] = (1.0,),
    normalize: bool,
    gather: Any,
    reduction: str,
) -> Float[Tensor, "*n"]:
    """A loss of two views as they come: a formula of the logits of their anchors.

    Args:
        u: One view, checked here, and made of unit length if asked.
        v: The other view.
        formula: The loss of each anchor, from the logits.
        fused: The name of the formula's mean among the fused kernels, which on a GPU
            give loss and gradient in one operation; None if it has none there.
        parameters: Of the fused formula.
        temperature: Divides every score; a number, a tensor or learned.
        negatives: "all", the other samples' rows in both views (2n - 2); "cross", those
            in the other view alone (n - 1); "within", those in the anchor's own.
        both: Whether the rows of v are anchors too.
        powers: k factors on the logits, each giving one log-partition.
        normalize: Whether rows are divided by their length.
        gather: Whether the rows of all processes are taken, as it says in ``_batch``.
        reduction: As for ``reduce``.
    """
    share, scale = share_pair(u, v, gather), scale_of(temperature)
    if normalize and both and fused and reduction == "mean" and share is None:
        loss = fused_loss(
            u,
            v,
            fused,
            parameters=parameters,
            scale=scale,
            powers=powers,
            negatives=negatives,
            log_count=log_count(len(u), negatives),
            largest_scale=largest_scale(temperature),
        )
        if loss is not None:
            return loss
    batch = make_batch((u, v), normalize=normalize, share=share)
    logits = batch_logits(batch, scale, powers, negatives, both)
    return reduce(formula(logits), reduction)


def log_count(n: int, negatives: str) -> float:
    """Logarithm of the number of an anchor's negatives among n pairs."""
    return math.log(2 * n - 2 if negatives == "all" else n - 1)


def batch_logits(
    batch: Batch,
    scale: Number,
    powers: tuple[float | int, ...],
    negatives: str,
    both: bool = True,
) -> Contrast:
    """Logits of u's rows and (if both) v's against the batch.

    Over processes those of all rows, each process having computed its own.
    """
    (u, v), how, share = batch.views, batch.pairing, batch.share
    scales, count = [power * scale for power in powers], log_count(batch.n, negatives)
    positive = scale * batch.of_all((u * v).sum(1))
    # one-sided losses keep the bits they have always had
    how["longest"] = batch.longest if both else math.inf
    if negatives == "all" and both:
        z, ids = torch.cat([u, v]), torch.cat([how["row_ids"]] * 2)
        how |= {"row_ids": ids, "column_ids": ids}
        how["share"] = None if share is None else share.repeat(2)
        negative = split_views(log_partitions(z, z, scales=scales, **how), 2, share)
        return Contrast(positive.expand(2, batch.n), negative, count)
    if not both:
        columns = u if negatives == "within" else v
        negative = log_partitions(u, columns, scales=scales, **how)
        return Contrast(positive, negative, count)
    positive = positive.expand(2, batch.n)
    if negatives == "within":
        each = [log_partitions(x, x, scales=scales, **how) for x in (u, v)]
        return Contrast(positive, torch.stack(each, 1), count)
    sides = [two_sided_log_partition(u, v, scale=s, **how) for s in scales]
    negative = torch.stack([torch.stack(side) for side in sides])
    return Contrast(positive, negative, count)


def with_negatives(logits: Contrast) -> Contrast:
    """Anchors that a source leaves without any negative made to cost a constant.

    An objective without the positive in its denominator would be minus infinity there.
    """
    alone = logits.negative[0] == -torch.inf
    return logits._replace(
        positive=logits.positive.masked_fill(alone, 0.0),
        negative=logits.negative.masked_fill(alone, 0.0),
    )


ALONE = (
    "No anchor of this batch has a negative: every candidate is of the anchor's own "
    "sample, or outside the source's limits. The loss teaches nothing here: remember "
    "other samples, or widen the limits."
)


def warn_if_alone(negative: Float[Tensor, "*a"]) -> None:
    """Say it when no anchor has a negative.

    Looking would make an accelerator wait; there the readings of training tell.
    """
    if may_look(negative) and bool((negative.detach() == -torch.inf).all()):
        warn_caller(ALONE)


def cross_entropy(logits: Contrast) -> Float[Tensor, "*a"]:
    """Of picking the positive out of itself and the negatives."""
    return softplus(logits.first - logits.positive)


def decoupled(logits: Contrast) -> Float[Tensor, "*a"]:
    """Log-partition of the negatives minus the positive's logit."""
    return logits.first - logits.positive
