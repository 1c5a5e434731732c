r"""The softmax objectives as one family (after Lee et al. 2025).

$$L = \frac1{2n}\sum_a \psi(x_a),\qquad
x_a = c_1\sum_{j\ne i} e^{s_{ij}-s_{ii}} + c_2\sum_{j\ne i} e^{a_{ij}-s_{ii}}$$

over the anchors of both views, s the logits across views and a those within the
anchor's own. InfoNCE is psi = log(1 + x) with (c1, c2) = (1, 0), NT-Xent the same with
(1, 1), DCL psi = log x with (1, 1), DHEL with (0, 1); psi = x has no logarithm at all.

Without a logarithm, at low temperatures, rows that are still alike cost more than a
float can hold, and are refused in words.

For n <= d + 1 all of them have one optimum, partners that agree and samples that form a
regular simplex, if psi does not fall and psi(e^y) is convex in y: then, by Jensen's
inequality twice, L is at least psi of the mean gap, and only the simplex has the least
gap everywhere. (That psi itself were convex is not needed, and log is not.) A psi of
your own is looked at before it is used: ``find_problem`` says in words what fails. Sums
come from the log-partition, so psi is given x and no matrix of pairs exists.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError, unknown
from ..partition import softplus
from ._batch import read_pair
from ._contrast import Contrast, batch_logits, with_negatives
from ._declared_settings import (
    Gather,
    NotNegative,
    Reduction,
    Temperature,
    check_settings,
    reduce,
    settings_of,
)
from ._learned_temperature import scale_of
from ._objective import Objective

Psi = Callable[[Tensor], Tensor]
# of log x, so that no exponential overflows
NAMED: dict[str, Psi] = {
    "log1p": softplus,
    "log": lambda y: y,
    "identity": torch.exp,
    "sqrt": lambda y: (y / 2).exp(),
}
LOWEST, HIGHEST, POINTS = -15.0, 30.0, 451  # of log x, where a psi is looked at
ROUNDING = 1e-9


def find_problem(psi: Psi) -> str:
    """Why a psi promises no simplex at the optimum; nothing where it does.

    It must not fall, and psi(e^y) must be convex in y: read off 451 points from
    x = 3e-7 to 1e13.

    >>> find_problem(torch.log1p)
    ''
    >>> find_problem(lambda x: -x)
    'psi falls, from x = 3.1e-07 to 3.4e-07: an anchor would gain by being mistaken.'
    >>> find_problem(torch.tanh)
    'psi(e^y) is not convex in y = log x near x = 1.5: equal gaps need not be optimal.'
    """
    y = torch.linspace(LOWEST, HIGHEST, POINTS, dtype=torch.float64)
    value = psi(y.exp())
    if not isinstance(value, Tensor) or value.shape != y.shape:
        return "psi must give one number for each one that it is given."
    if not bool(value.isfinite().all()):
        x = float(y[~value.isfinite()][0].exp())
        return f"psi({x:.2g}) is not finite."
    step = value.diff()
    size = torch.maximum(value[1:].abs(), value[:-1].abs()).clamp_min(1e-6)
    if bool((falls := step < -ROUNDING * size).any()):
        k = int(falls.int().argmax())
        low, high = (float(y[j].exp()) for j in (k, k + 1))
        return (
            f"psi falls, from x = {low:.2g} to {high:.2g}: an anchor would gain by "
            "being mistaken."
        )
    if bool((bends := step.diff() < -ROUNDING * size[1:]).any()):
        # the place where it bends the wrong way most, for its size
        k = int((step.diff() / size[1:]).where(bends, torch.inf).argmin())
        return (
            f"psi(e^y) is not convex in y = log x near x = {float(y[k + 1].exp()):.2g}"
            ": equal gaps need not be optimal."
        )
    return ""


def check_psi(name: str, value: Any) -> None:
    """Raise unless it is a name that is known, or a function."""
    if isinstance(value, str) and value not in NAMED:
        raise SettingError(unknown(name, value, NAMED))
    if not isinstance(value, str) and not callable(value):
        raise SettingError(
            f"{name} is {', '.join(NAMED)} or a function of x: got {value!r}."
        )


@check_settings
def unified(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.5,
    psi: Annotated[str | Psi, check_psi] = "log1p",
    cross_weight: NotNegative = 1.0,
    within_weight: NotNegative = 1.0,
    any_psi: bool = False,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Psi of the weighted sums over both views' negatives, relative to the positive.

    Settings:
        psi (log1p, log, identity, sqrt): Of each anchor's sum x; in Python also any
            function of a tensor of such sums.
        cross_weight (0 or more): c1, of the other samples' rows in the other view.
        within_weight (0 or more): c2, of those in the anchor's own view.
        any_psi: Whether a function that falls or bends the wrong way is used all the
            same.

    >>> import torch
    >>> z = torch.ones(4, 8)
    >>> unified(z, z)  # as nt_xent: log 7
    tensor(1.9459)
    >>> unified(z, z, psi="log", cross_weight=0)  # as dhel: log 3
    tensor(1.0986)
    """
    apply = choose_psi(psi, any_psi)
    weights = weights_of(cross_weight, within_weight)
    batch = read_pair(u, v, normalize=normalize, gather=gather)
    scale, sums = scale_of(temperature), []
    for negatives, weight in weights.items():
        logits = batch_logits(batch, scale, (1.0,), negatives)
        sums.append(logits.first + math.log(weight))
    total = sums[0] if len(sums) == 1 else torch.logaddexp(*sums)
    return reduce(apply(total - logits.positive), reduction)


def weights_of(cross: float | int, within: float | int) -> dict[str, float | int]:
    """The sums that are needed, and what each weighs."""
    each = {"all": cross} if cross == within else {"cross": cross, "within": within}
    weights = {kind: weight for kind, weight in each.items() if weight}
    if not weights:
        raise SettingError(
            "cross_weight and within_weight are both 0, so there are no negatives: "
            "give one of them."
        )
    return weights


def choose_psi(psi: str | Psi, any_psi: bool) -> Psi:
    """The function of log x that is meant."""
    if isinstance(psi, str):
        return NAMED[psi]
    if not any_psi and (problem := find_problem(psi)):
        raise SettingError(
            f"{problem} Choose another, or set any_psi=True to use it anyway."
        )
    return partial(_of_exponential, psi)


def _of_exponential(psi: Psi, y: Tensor) -> Tensor:
    return psi(y.exp())


class Unified(Objective):
    """``unified`` with its settings; against a source, its sum weighs 1."""

    __init__ = settings_of(unified)
    batch_only = ("cross_weight", "within_weight")
    takes_critic = False  # it compares rows of one view, unless within_weight is 0

    def make_state(self) -> None:
        """Look at the settings together, before the first batch."""
        choose_psi(self.psi, self.any_psi)
        weights_of(self.cross_weight, self.within_weight)

    @property
    def negatives(self) -> str:  # type: ignore[override]
        """Whose softmax weighs the gradient: that of the views with a weight."""
        kinds = weights_of(self.cross_weight, self.within_weight)
        return next(iter(kinds)) if len(kinds) == 1 else "all"

    @property
    def idle(self) -> tuple[str, ...]:
        """A psi by name needs no permission."""
        return ("any_psi",) if isinstance(self.psi, str) else ()

    def of(self, logits: Contrast) -> Tensor:
        """Psi of the negatives' sum relative to the positive."""
        logits = with_negatives(logits)
        return choose_psi(self.psi, True)(logits.first - logits.positive)

    def chance(self, n: int, n_views: int = 2) -> float:
        """Of equal scores: psi of the weighted number of negatives."""
        total = (self.cross_weight + self.within_weight) * (n - 1)
        at = torch.tensor(math.log(total), dtype=torch.float64)
        return float(choose_psi(self.psi, True)(at))
