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
from torch.nn.functional import softplus

from ..errors import SettingError
from ._contrast import NEGATIVES, Contrast, paired_loss, with_negatives
from ._objective import Objective, softmax_readings
from ._rows import (
    Number,
    check_choice,
    check_number,
    check_positive,
)


def flat_nce(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Number = 0.1,
    negatives: str = "all",
    keep_positive: bool = False,
    gamma: float | int = 1.0,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """A constant 1 whose gradient is that of the self-normalised contrast.

    >>> import torch
    >>> u = torch.eye(3, requires_grad=True)
    >>> loss = flat_nce(u, u.detach().roll(1, 1))
    >>> loss.item(), bool((torch.autograd.grad(loss, u)[0] != 0).any())
    (1.0, True)
    """
    _check(temperature, negatives, gamma)
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
    )


def _flat(logits: Contrast, keep_positive: bool, gamma: float | int) -> Tensor:
    gap = logits.first - gamma * logits.positive
    if keep_positive:
        gap = softplus(gap)
    gap = gap / gamma
    return (gap - gap.detach()).exp().mean()


def _check(temperature: Number, negatives: str, gamma: float | int) -> None:
    check_positive("temperature", temperature)
    check_choice("negatives", negatives, NEGATIVES)
    check_number("gamma", gamma)
    if gamma == 0:
        raise SettingError("gamma must not be 0; towards 0 it means the plain mean.")


class FlatNCE(Objective):
    """``flat_nce`` with its settings."""

    def __init__(
        self,
        temperature: float | int = 0.1,
        *,
        negatives: str = "all",
        keep_positive: bool = False,
        gamma: float | int = 1.0,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        _check(temperature, negatives, gamma)
        self.temperature = temperature
        self.negatives = negatives
        self.keep_positive = keep_positive
        self.gamma = gamma
        self.normalize = normalize

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """1, with a gradient."""
        return flat_nce(
            u,
            v,
            temperature=self.temperature,
            negatives=self.negatives,
            keep_positive=self.keep_positive,
            gamma=self.gamma,
            normalize=self.normalize,
        )

    @property
    def powers(self) -> tuple[float | int, ...]:
        """Hölder's exponent."""
        return (self.gamma,)

    def of(self, logits: Contrast) -> Tensor:
        """1, with a gradient."""
        return _flat(with_negatives(logits), self.keep_positive, self.gamma)

    def readings(self, u: Tensor, v: Tensor) -> dict[str, float]:
        """The InfoNCE value, certified information and ESS; not the constant loss."""
        return softmax_readings(
            u, v, temperature=self.temperature, normalize=self.normalize
        )
