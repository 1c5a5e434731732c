"""The bounds that a critic can be trained with: values, losses and what each claims."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ._score_bounds import (
    binary_nce,
    donsker_varadhan,
    fdv_loss,
    flat_nce_loss,
    flo,
    info_nce,
    interpolated,
    jensen_shannon,
    leave_one_out,
    mine_loss,
    nwj_of_log_ratio,
    smile,
    tuba,
)
from ._vince import hard_negatives

Memory = dict[str, Tensor]
ALPHA = 0.5
HARD = 0.5


@dataclass(frozen=True)
class Bound:
    """How a critic of log p(x,y)/p(x)p(y) is trained and read."""

    about: str
    value: Callable[[Tensor, Tensor], Tensor]
    """Nats, from the critic matrix and the helper's numbers."""
    lower_bound: bool
    """Whether the value's expectation on fresh rows is never above I."""
    minimize: Callable[[Tensor, Tensor, Memory], Tensor] | None = None
    """What training minimizes, where that is not minus the value."""
    ceiling: Callable[[int], float] | None = None
    """The most that n candidates can show."""
    helper: Literal["none", "baseline", "dual"] = "none"
    """A second network: log a(x) of each row, or u(x, y) of each pair of partners."""
    select_by_value: bool = False
    """Stop early by the value, for losses that are constant."""

    def loss(self, scores: Tensor, helper: Tensor, memory: Memory) -> Tensor:
        """What a step minimizes; ``memory`` is kept from step to step."""
        if self.minimize is None:
            return -self.value(scores, helper)
        return self.minimize(scores, helper, memory)


def _mine(scores: Tensor, _: Tensor, memory: Memory) -> Tensor:
    loss, memory["log_average"] = mine_loss(scores, memory.get("log_average"))
    return loss


BOUNDS: dict[str, Bound] = {
    "info_nce": Bound(
        "pick the partner among n rows; certified, never above log n",
        lambda s, _: info_nce(s),
        lower_bound=True,
        ceiling=math.log,
    ),
    "nwj": Bound(
        "Nguyen-Wainwright-Jordan (f-GAN KL); certified, variance like exp(I)",
        lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
    ),
    "tuba": Bound(
        "NWJ with a learned baseline of x; certified",
        tuba,
        lower_bound=True,
        helper="baseline",
    ),
    "mine": Bound(
        "Donsker-Varadhan with MINE's gradient; leans upwards on finite samples",
        lambda s, _: donsker_varadhan(s),
        lower_bound=False,
        minimize=_mine,
        select_by_value=True,
    ),
    "unnormalized_ba": Bound(
        "leave-one-out normalizer; overshoots at the best critic",
        lambda s, _: leave_one_out(s),
        lower_bound=False,
    ),
    "jsd": Bound(
        "Jensen-Shannon critic, read by NWJ with the + 1; certified",
        lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
        minimize=lambda s, _, __: -jensen_shannon(s),
    ),
    "smile": Bound(
        "Jensen-Shannon critic, clipped Donsker-Varadhan (c = 5); no ceiling, no bound",
        lambda s, _: smile(s, 5.0),
        lower_bound=False,
        minimize=lambda s, _, __: -jensen_shannon(s),
    ),
    "binary_nce": Bound(
        "logistic critic with n - 1 strangers per partner, read by NWJ; certified",
        lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
        minimize=lambda s, _, __: -binary_nce(s),
    ),
    "interpolated": Bound(
        "half InfoNCE, half TUBA; certified, ceiling 1 + log 2(n-1)",
        lambda s, a: interpolated(s, a, ALPHA),
        lower_bound=True,
        ceiling=lambda n: 1 + math.log((n - 1) / ALPHA),
        helper="baseline",
    ),
    "flat_nce": Bound(
        "FlatNCE's gradient, InfoNCE's value; certified, never above log n",
        lambda s, _: info_nce(s),
        lower_bound=True,
        minimize=lambda s, _, __: flat_nce_loss(s),
        ceiling=math.log,
        select_by_value=True,
    ),
    "fdv": Bound(
        "FlatNCE's gradient with InfoNCE written into the loss; as flat_nce",
        lambda s, _: info_nce(s),
        lower_bound=True,
        minimize=lambda s, _, __: fdv_loss(s),
        ceiling=math.log,
        select_by_value=True,
    ),
    "flo": Bound(
        "Fenchel-Legendre with a learned dual; certified, no ceiling",
        flo,
        lower_bound=True,
        helper="dual",
    ),
    "vince": Bound(
        "InfoNCE against the hardest half of the strangers; certified, below InfoNCE",
        lambda s, _: hard_negatives(s, HARD),
        lower_bound=True,
        ceiling=lambda n: math.log(math.ceil(HARD * (n - 1)) + 1),
    ),
}
