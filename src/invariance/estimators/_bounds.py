"""The bounds that a critic can be trained with: values, losses and what each claims."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from ._score_bounds import (
    binary_nce,
    clip_tails,
    donsker_varadhan,
    fdv_loss,
    flat_nce_loss,
    flo,
    info_nce,
    interpolated,
    jensen_shannon,
    joint,
    leave_one_out,
    log_mean,
    log_mean_by_row,
    mine_loss,
    nwj_of_log_ratio,
    reach,
    smile,
    tuba,
)
from ._vince import hard_negatives

Memory = dict[str, Tensor]
Level = Callable[[Tensor, Tensor], Tensor | float]


@dataclass(frozen=True)
class Bound:
    """How a critic of log p(x,y)/p(x)p(y) is trained and read."""

    about: str
    value: Callable[..., Tensor]
    """Nats, from the critic matrix and the helper's numbers (and ``settings``)."""
    lower_bound: bool
    """Whether the value's expectation on fresh rows is never above I."""
    minimize: Callable[[Tensor, Tensor, Memory], Tensor] | None = None
    """What training minimizes, where that is not minus the value."""
    ceiling: Callable[..., float] | None = None
    """The most that n candidates can show."""
    helper: Literal["none", "baseline", "dual"] = "none"
    """A second network: log a(x) of each row, or u(x, y) of each pair of partners."""
    select_by_value: bool = False
    """Stop early by the value, for losses that are constant."""
    settings: Mapping[str, float | int] = field(default_factory=dict)
    """Numbers that ``value`` and ``ceiling`` take, with their defaults."""
    level: Level | None = None
    """Where the tail of e^g is clipped when rows are read, as in ``clip_tails``: the
    critic's own normalizer. None for values that no single score can blow up."""
    log_ratio: Literal["itself", "helper", "constant", "row", "none"] = "row"
    """What the best critic g is: log p(x,y)/p(x)p(y) itself, that plus the helper's
    number, plus one constant, plus a term c(x) of each row, or something else."""

    def set(self, **settings: float | int) -> "Bound":
        """The same bound with other numbers, such as ``alpha``."""
        ceiling = self.ceiling and partial(self.ceiling, **settings)
        value = partial(self.value, **settings)
        both = {**self.settings, **settings}
        return replace(self, value=value, ceiling=ceiling, settings=both)

    def most(self, n: int) -> float | None:
        """The most that can be read on n rows; None where nothing limits it.

        For bounds without a ceiling of their own it is what clipped scores leave, which
        is about twice log n.
        """
        most = math.inf
        if self.ceiling is not None:
            most = self.ceiling(n)
        elif self.level is not None:
            most = reach(n) + (1 if self.lower_bound else 0)
        return most if math.isfinite(most) else None

    def temper(
        self, scores: Tensor, helper: Tensor, scale: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        """Critic and helper times ``scale``, with the tail clipped: what is read.

        Scale 0 is the critic that knows nothing, whose value is 0 for every bound.
        """
        if scale == 0:
            return torch.zeros_like(scores), torch.zeros_like(helper)
        scores, helper = scale * scores, scale * helper
        if self.level is None:
            return scores, helper
        clipped = clip_tails(scores, self.level(scores, helper))
        if self.helper == "dual":  # u + g, which estimates log Z(x), stays
            helper = helper + joint(scores) - joint(clipped)
        return clipped, helper

    def loss(self, scores: Tensor, helper: Tensor, memory: Memory) -> Tensor:
        """What a step minimizes; ``memory`` is kept from step to step."""
        if self.minimize is None:
            return -self.value(scores, helper)
        return self.minimize(scores, helper, memory)


def _mine(scores: Tensor, _: Tensor, memory: Memory) -> Tensor:
    loss, memory["log_average"] = mine_loss(scores, memory.get("log_average"))
    return loss


def _most_interpolated(n: int, alpha: float | int = 0.5) -> float:
    if alpha == 1:
        return math.log(n - 1)
    return 1 + math.log((n - 1) / alpha) if alpha else math.inf


def _at_zero(_: Tensor, __: Tensor) -> float:
    return 0.0


BOUNDS: dict[str, Bound] = {
    "info_nce": Bound(
        "pick the partner among n rows; certified, never above log n",
        lambda s, _: info_nce(s),
        lower_bound=True,
        ceiling=math.log,
    ),
    "nwj": Bound(
        "Nguyen-Wainwright-Jordan (f-GAN KL); certified, to about 2 log n",
        lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
        level=_at_zero,
        log_ratio="itself",
    ),
    "tuba": Bound(
        "NWJ with a learned baseline of x; certified, to about 2 log n",
        tuba,
        lower_bound=True,
        helper="baseline",
        level=lambda _, a: a,
        log_ratio="helper",
    ),
    "mine": Bound(
        "Donsker-Varadhan with MINE's gradient; biased upwards on finite samples",
        lambda s, _: donsker_varadhan(s),
        lower_bound=False,
        minimize=_mine,
        select_by_value=True,
        level=lambda s, _: log_mean(s)[..., None].expand(s.shape[:-1]),
        log_ratio="constant",
    ),
    "unnormalized_ba": Bound(
        "leave-one-out normalizer; overshoots at the best critic",
        lambda s, _: leave_one_out(s),
        lower_bound=False,
        level=lambda s, _: log_mean_by_row(s),
    ),
    "jsd": Bound(
        "Jensen-Shannon critic, read by NWJ with the + 1; certified",
        lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
        minimize=lambda s, _, __: -jensen_shannon(s),
        level=_at_zero,
        log_ratio="itself",
    ),
    "smile": Bound(
        "Jensen-Shannon critic, clipped Donsker-Varadhan; no ceiling, no bound",
        lambda s, _, clip=5.0: smile(s, clip),
        lower_bound=False,
        minimize=lambda s, _, __: -jensen_shannon(s),
        settings={"clip": 5.0},
        log_ratio="itself",
    ),
    "binary_nce": Bound(
        "logistic critic with n - 1 strangers per partner, read by NWJ; certified",
        lambda s, _: nwj_of_log_ratio(s),
        lower_bound=True,
        minimize=lambda s, _, __: -binary_nce(s),
        level=_at_zero,
        log_ratio="itself",
    ),
    "interpolated": Bound(
        "InfoNCE mixed with TUBA; certified, ceiling 1 + log((n-1)/alpha)",
        interpolated,
        lower_bound=True,
        ceiling=_most_interpolated,
        helper="baseline",
        settings={"alpha": 0.5},
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
        "Fenchel-Legendre with a learned dual; certified, to about 2 log n",
        flo,
        lower_bound=True,
        helper="dual",
        level=_at_zero,
        log_ratio="helper",
    ),
    "vince": Bound(
        "InfoNCE against the hardest strangers; certified, below InfoNCE",
        lambda s, _, fraction=0.5: hard_negatives(s, fraction),
        lower_bound=True,
        ceiling=lambda n, fraction=0.5: math.log(math.ceil(fraction * (n - 1)) + 1),
        settings={"fraction": 0.5},
        log_ratio="none",
    ),
}
