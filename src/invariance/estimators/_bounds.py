"""The bounds that a critic can be trained with: losses, values and what each claims."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ._donsker_varadhan import donsker_varadhan, mine_loss
from ._flat_nce import fdv_loss, flat_nce_loss
from ._flo import flo
from ._info_nce import info_nce
from ._interpolated import interpolated
from ._jensen_shannon import binary_nce, jensen_shannon
from ._smile import smile
from ._tuba import nwj_of_log_ratio, tuba
from ._unnormalised import leave_one_out
from ._vince import hard_negatives

Memory = dict[str, Tensor]
ALPHA = 0.5
HARD = 0.5


@dataclass(frozen=True)
class Bound:
    """How a critic is trained and read. All critics here aim at log p(x,y)/p(x)p(y)."""

    about: str
    loss: Callable[[Tensor, Tensor, Memory], Tensor]
    """What is minimised, from the critic matrix, the helper's numbers and a memory."""
    value: Callable[[Tensor, Tensor], Tensor]
    """Nats, from the critic matrix and the helper's numbers."""
    lower_bound: bool
    """Whether the value's expectation on fresh rows is never above I."""
    ceiling: Callable[[int], float] | None = None
    """The most that n candidates can show."""
    helper: Literal["none", "baseline", "dual"] = "none"
    """A second network: log a(x) of each row, or u(x, y) of each pair of partners."""
    select_by_value: bool = False
    """Stop early by the value, for losses that are constant."""


def _mine(scores: Tensor, _: Tensor, memory: Memory) -> Tensor:
    loss, memory["log_average"] = mine_loss(scores, memory.get("log_average"))
    return loss


BOUNDS: dict[str, Bound] = {
    "info_nce": Bound(
        "pick the partner among n rows; certified, never above log n",
        loss=lambda s, _, __: -info_nce(s),
        value=lambda s, _: info_nce(s),
        lower_bound=True,
        ceiling=math.log,
    ),
    "nwj": Bound(
        "Nguyen-Wainwright-Jordan (f-GAN KL); certified, variance like exp(I)",
        loss=lambda s, _, __: -nwj_of_log_ratio(s),
        value=lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
    ),
    "tuba": Bound(
        "NWJ with a learned baseline of x; certified",
        loss=lambda s, a, _: -tuba(s, a),
        value=tuba,
        lower_bound=True,
        helper="baseline",
    ),
    "mine": Bound(
        "Donsker-Varadhan with MINE's gradient; leans upwards on finite samples",
        loss=_mine,
        value=lambda s, _: donsker_varadhan(s),
        lower_bound=False,
        select_by_value=True,
    ),
    "unnormalised_ba": Bound(
        "leave-one-out normaliser; overshoots at the best critic",
        loss=lambda s, _, __: -leave_one_out(s),
        value=lambda s, _: leave_one_out(s),
        lower_bound=False,
    ),
    "jsd": Bound(
        "Jensen-Shannon critic, read by NWJ with the + 1; certified",
        loss=lambda s, _, __: -jensen_shannon(s),
        value=lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
    ),
    "smile": Bound(
        "Jensen-Shannon critic, clipped Donsker-Varadhan (c = 5); no ceiling, no bound",
        loss=lambda s, _, __: -jensen_shannon(s),
        value=lambda s, _: smile(s, 5.0),
        lower_bound=False,
    ),
    "binary_nce": Bound(
        "logistic critic with n - 1 strangers a partner, read by NWJ; certified",
        loss=lambda s, _, __: -binary_nce(s),
        value=lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
    ),
    "interpolated": Bound(
        "half InfoNCE, half TUBA; certified, ceiling 1 + log 2(n-1)",
        loss=lambda s, a, _: -interpolated(s, a, ALPHA),
        value=lambda s, a: interpolated(s, a, ALPHA),
        lower_bound=True,
        ceiling=lambda n: 1 + math.log((n - 1) / ALPHA),
        helper="baseline",
    ),
    "flat_nce": Bound(
        "FlatNCE's gradient, InfoNCE's value; certified, never above log n",
        loss=lambda s, _, __: flat_nce_loss(s),
        value=lambda s, _: info_nce(s),
        lower_bound=True,
        ceiling=math.log,
        select_by_value=True,
    ),
    "fdv": Bound(
        "FlatNCE's gradient with InfoNCE written into the loss; as flat_nce",
        loss=lambda s, _, __: fdv_loss(s),
        value=lambda s, _: info_nce(s),
        lower_bound=True,
        ceiling=math.log,
        select_by_value=True,
    ),
    "flo": Bound(
        "Fenchel-Legendre with a learned dual; certified, no ceiling",
        loss=lambda s, u, _: -flo(s, u),
        value=flo,
        lower_bound=True,
        helper="dual",
    ),
    "vince": Bound(
        "InfoNCE against the hardest half of the strangers; certified, below InfoNCE",
        loss=lambda s, _, __: -hard_negatives(s, HARD),
        value=lambda s, _: hard_negatives(s, HARD),
        lower_bound=True,
        ceiling=lambda n: math.log(math.ceil(HARD * (n - 1)) + 1),
    ),
}
