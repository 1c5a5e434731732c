r"""FlatNCE: InfoNCE whose gradient does not die when the batch is small or solved.

$$L = \frac1{2n}\sum_a e^{h_a - \mathrm{sg}\,h_a},\qquad
h_a = \frac1\gamma\log\sum_{k\in N(a)} e^{\gamma(s_{ak} - s_{a,\mathrm{pos}})}$$

sg stops the gradient, so **the value is always 1** and only the gradient means
anything: log and compare ``readings`` (the InfoNCE value and the ESS), never the loss.
The gradient is that of h: DCL's with the same negatives, that is InfoNCE's of each
anchor divided by 1 - p. ``keep_positive`` puts the positive back into the sum, which
gives InfoNCE's own gradient. ``gamma`` (Hölder) weighs hard negatives more above 1 and
less below; negative gamma looks at the easiest.

The paper's remark that -h also bounds the mutual information from below fails for
finite n: leave-one-out values overestimate at the optimal critic.
"""

from functools import partial

from jaxtyping import Float
from torch import Tensor

from ..partition import softplus
from ._contrast import Contrast, Negatives, paired_loss, with_negatives
from ._declared_settings import (
    Gather,
    NotZero,
    Reduction,
    Temperature,
    check_settings,
    settings_of,
)
from ._objective import Objective


@check_settings
def flat_nce(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.1,
    negatives: Negatives = "all",
    keep_positive: bool = False,
    gamma: NotZero = 1.0,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """A constant 1 whose gradient is that of the self-normalized contrast.

    Settings:
        negatives (all, cross): The other samples' rows in both views, or in the other
            view alone.
        keep_positive: Whether the positive stays in the denominator.
        gamma (not 0): Exponent of the Hölder mean over the negatives; 1 is FlatNCE.

    >>> import torch
    >>> u = torch.eye(3, requires_grad=True)
    >>> loss = flat_nce(u, u.detach().roll(1, 1))
    >>> loss.item(), bool((torch.autograd.grad(loss, u)[0] != 0).any())
    (1.0, True)
    """
    return paired_loss(
        u,
        v,
        partial(_flat, keep_positive=keep_positive, gamma=gamma),
        fused="flat_with_positive" if keep_positive else "flat",
        parameters=(float(gamma),),
        temperature=temperature,
        negatives=negatives,
        powers=(gamma,),
        normalize=normalize,
        gather=gather,
        reduction=reduction,
    )


def _flat(logits: Contrast, keep_positive: bool, gamma: float | int) -> Tensor:
    gap = logits.first - gamma * logits.positive
    if keep_positive:
        gap = softplus(gap)
    gap = gap / gamma
    return (gap - gap.detach()).exp()


class FlatNCE(Objective):
    """``flat_nce`` with its settings."""

    __init__ = settings_of(flat_nce)
    batch_only = ("negatives",)
    value_is_constant = True

    @property
    def powers(self) -> tuple[float | int, ...]:
        """Hölder's exponent."""
        return (self.gamma,)

    def of(self, logits: Contrast) -> Tensor:
        """1, with a gradient."""
        return _flat(with_negatives(logits), self.keep_positive, self.gamma)
