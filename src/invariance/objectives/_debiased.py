r"""Debiased contrast, and with ``hardness`` the hard-negative loss.

Some negatives are secretly of the anchor's class. With p the share of them (``prior``),
N = 2n - 2 negatives of mean exponential $\bar e$ and the positive's $e^{s}$,

$$L = \mathrm{mean}\,\log\Big(1 + \frac{G}{e^{s}}\Big),\qquad
G = \max\Big(N\frac{\bar e - p\,e^{s}}{1 - p},\; N e^{-1/\tau}\Big)$$

With hardness $\beta > 0$ the mean weighs a negative by its own exponential to the power
$\beta$: $\bar e = \sum_k e^{(1+\beta)s_k}\big/\sum_k e^{\beta s_k}$, gradient through
the weights. All in logarithms, so a low temperature overflows nothing. L > 0.

This "DCL" is Chuang et al.'s debiased loss, not Yeh et al.'s decoupled one (``dcl``).
"""

import math
from functools import partial
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..partition import softplus
from ..plain_numbers import check_number
from ._contrast import Contrast, log_count, paired_loss, with_negatives
from ._declared_settings import (
    Gather,
    NotNegative,
    Reduction,
    Temperature,
    check_settings,
    settings_of,
)
from ._learned_temperature import scale_of
from ._objective import Objective


def check_prior(name: str, value: float | int) -> None:
    """Raise unless the share of false negatives leaves some true ones."""
    check_number(name, value)
    if not 0 <= value < 1:
        raise SettingError(
            f"{name} is the share of negatives of the anchor's own class, from 0 to "
            f"below 1 (1 / number of classes if they are balanced): got {value}."
        )


@check_settings
def debiased(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.5,
    prior: Annotated[float | int, check_prior] = 0.1,
    hardness: NotNegative = 0.0,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """NT-Xent with the expected false negatives taken out of the denominator.

    Settings:
        prior (0 to below 1): Share of the negatives that are of the anchor's own class.
        hardness (0 or more): How much more near negatives weigh; 0 weighs all alike.

    >>> import torch
    >>> z = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    >>> u, v = z, z.roll(1, 1)
    >>> from invariance.objectives import nt_xent
    >>> bool(torch.isclose(debiased(u, v, prior=0.0), nt_xent(u, v)))
    True
    """
    parameters = _parameters(u, temperature, prior)
    return paired_loss(
        u,
        v,
        partial(_corrected, temperature=temperature, prior=prior, hardness=hardness),
        fused="debiased" if parameters else None,
        parameters=parameters,
        temperature=temperature,
        negatives="all",
        powers=_powers(hardness),
        normalize=normalize,
        gather=gather,
        reduction=reduction,
    )


def _parameters(u: Tensor, temperature: Any, prior: float | int) -> tuple[float, ...]:
    """Of the fused formula: the false negatives' share, 1 / (1 - p), and the floor."""
    n = len(u) if isinstance(u, Tensor) and u.ndim else 0
    if not isinstance(temperature, float | int) or n < 2:  # not fused, or an error
        return ()
    count = log_count(n, "all")
    share = math.log(prior) + count if prior else -math.inf
    return share, -math.log1p(-prior), count - 1 / temperature


def _powers(hardness: float | int) -> tuple[float | int, ...]:
    return (1 + hardness, hardness) if hardness else (1.0,)


def _corrected(
    logits: Contrast,
    temperature: Any,
    prior: float | int,
    hardness: float | int,
) -> Tensor:
    count = logits.log_count
    total = logits.first
    if hardness:
        total = total - logits.negative[1] + count
    # log of G / e^s: subtract the false negatives' share, but not below the floor
    gap = total - logits.positive
    if prior:
        share = math.log(prior) + count - gap
        below = share < 0
        share = share.where(below, -1.0)  # log1p stays finite where it is not used
        gap = (gap + torch.log1p(-share.exp()) - math.log1p(-prior)).where(
            below, -torch.inf
        )
    floor = count - scale_of(temperature) - logits.positive
    return softplus(torch.maximum(gap, floor))


class Debiased(Objective):
    """``debiased`` with its settings."""

    __init__ = settings_of(debiased)
    negatives = "all"

    @property
    def powers(self) -> tuple[float | int, ...]:
        """Of the weighted mean, and 0 for the number of negatives."""
        return (*_powers(self.hardness), 0)

    def of(self, logits: Contrast) -> Tensor:
        """Cross-entropy without the expected false negatives."""
        logits = with_negatives(logits)
        return _corrected(logits, self.temperature, self.prior, self.hardness)

    def chance(self, n: int, n_views: int = 2) -> float:
        """Any of the other rows of both views, whatever the prior."""
        return math.log(2 * n - 1)
