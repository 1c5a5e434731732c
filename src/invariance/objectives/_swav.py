r"""SwAV: predict the other view's assignment to prototypes.

$$L = -\frac1{2n}\sum_i\sum_k q^v_{ik}\log\mathrm{softmax}_k(u_i\cdot c_k/\tau)
+ q^u_{ik}\log\mathrm{softmax}_k(v_i\cdot c_k/\tau)$$

The assignments q are Sinkhorn's: exp(score / epsilon) balanced so that every prototype
gets the same share of the batch and every row sums to 1, without gradient. Balancing
is what forbids collapse; it needs at least a few rows per prototype to mean much.
With multi-crop only the large crops are assigned; all others predict them.
L >= 0; chance is log k.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError, ShapeError
from ..partition import Share, gather_rows
from ._batch import (
    check_on_all,
    check_rows,
    check_tensor,
    full_precision,
    paired_rows,
    take_share,
    unit_rows,
)
from ._declared_settings import (
    Gather,
    Positive,
    Reduction,
    Temperature,
    check_settings,
    reduce,
    settings_of,
)
from ._learned_temperature import value_of
from ._objective import Objective, Terms


def check_iterations(name: str, value: int) -> None:
    """Raise unless rows are balanced at least once."""
    if value < 1:
        raise SettingError(f"{name} must be at least 1: got {value}.")


@check_settings
def swav(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    prototypes: Float[Tensor, "k e"],
    *,
    temperature: Temperature = 0.1,
    epsilon: Positive = 0.05,
    iterations: Annotated[int, check_iterations] = 3,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Swapped prediction of balanced prototype assignments; all rows are normalized.

    Settings:
        epsilon (above 0): Softness of the assignments to prototypes.
        iterations (1 or more): Times the assignments are balanced.

    >>> import torch
    >>> swav(torch.ones(4, 2), torch.ones(4, 2), torch.ones(3, 2))  # log 3
    tensor(1.0986)
    """
    u, v = paired_rows(u, v, gather=gather)
    check_tensor(prototypes, "prototypes")
    if prototypes.ndim == 2 and len(prototypes) < 2:
        raise ShapeError(
            "prototypes need at least 2 rows, or all samples are assigned alike: got "
            f"{tuple(prototypes.shape)}."
        )
    check_rows(prototypes, "prototypes")
    if prototypes.shape[1] != u.shape[1]:
        raise ShapeError(
            f"prototypes need rows of the embeddings' width {u.shape[1]}: got "
            f"{tuple(prototypes.shape)}."
        )
    losses = _swapped([u, v], [], prototypes, temperature, epsilon, iterations)
    return reduce(losses, reduction)


def _swapped(
    whole: Sequence[Float[Tensor, "n d"]],
    parts: Sequence[Float[Tensor, "n d"]],
    prototypes: Float[Tensor, "k d"],
    temperature: Any,
    epsilon: float | int,
    iterations: int,
) -> Float[Tensor, " n"]:
    """The assignments of whole views, each predicted from every other view."""
    directions = unit_rows(prototypes).to(whole[0])
    with full_precision(directions):
        scores = [x @ directions.T for x in (*whole, *parts)]
    guesses = [(s / value_of(temperature)).log_softmax(1) for s in scores]
    losses = []
    for view in range(len(whole)):
        sure = sinkhorn(scores[view].detach() / epsilon, iterations)
        others = guesses[:view] + guesses[view + 1 :]
        losses += [-(sure * guess).sum(1) for guess in others]
    return torch.stack(losses).mean(0)


def sinkhorn(logits: Float[Tensor, "n k"], iterations: int) -> Float[Tensor, "n k"]:
    """Assignments with rows summing to 1 and columns balanced to n / k, nearly.

    In logarithms, since exp(1 / 0.05) squared already overflows half precision.

    >>> import torch
    >>> sinkhorn(torch.zeros(2, 4), 3)
    tensor([[0.2500, 0.2500, 0.2500, 0.2500],
            [0.2500, 0.2500, 0.2500, 0.2500]])
    """
    for _ in range(iterations):
        logits = logits - logits.logsumexp(0)
        logits = logits - logits.logsumexp(1, keepdim=True)
    return logits.exp()


def _check_all(*views: Tensor, share: Share | None) -> None:
    for name, rows in enumerate(views, start=1):
        check_rows(rows, f"view {name}", share=share)


class SwAV(Objective):
    """``swav`` with its settings and its prototypes, which are learned."""

    __init__ = settings_of(swav)
    prototypes: Tensor

    def make_state(  # type: ignore[override]
        self, width: int, n_prototypes: int = 3000
    ) -> None:
        """Prototypes in random directions.

        Settings:
            n_prototypes (2 or more): How many; a batch should fill each with a few.
        """
        if width < 1 or n_prototypes < 2:
            raise SettingError(
                "SwAV needs a width of at least 1 and at least 2 prototypes: got "
                f"{width} and {n_prototypes}."
            )
        self.prototypes = nn.Parameter(unit_rows(torch.randn(n_prototypes, width)))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return swav(u, v, self.prototypes, **self.settings)

    def terms_of_views(
        self, whole: Sequence[Tensor], parts: Sequence[Tensor] = ()
    ) -> list[Terms]:
        """One loss: only whole views are assigned, and every other view predicts them.

        A small part of an image says too little to be a target.
        """
        share = take_share(whole[0], self.gather)
        check_on_all(_check_all, *whole, *parts, share=share)
        if share is not None:
            whole = [gather_rows(x, share=share) for x in whole]
            parts = [gather_rows(x, share=share) for x in parts]
        whole, parts = [unit_rows(x) for x in whole], [unit_rows(x) for x in parts]
        how = self.temperature, self.epsilon, self.iterations
        losses = _swapped(whole, parts, self.prototypes, *how)
        return [self.require_finite(Terms({"loss": losses.mean()}))]

    def chance(self, n: int, n_views: int = 2) -> float:
        """Any of the prototypes."""
        return math.log(len(self.prototypes))
