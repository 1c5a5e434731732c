r"""SwAV: predict the other view's assignment to prototypes.

$$L = -\frac1{2n}\sum_i\sum_k q^v_{ik}\log\mathrm{softmax}_k(u_i\cdot c_k/\tau)
+ q^u_{ik}\log\mathrm{softmax}_k(v_i\cdot c_k/\tau)$$

The assignments q are Sinkhorn's: exp(score / epsilon) balanced so that every prototype
gets the same share of the batch and every row sums to 1, without gradient. Balancing
is what forbids collapse; it needs at least a few rows a prototype to mean much.
L >= 0; chance is log k.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError, ShapeError
from ._objective import Objective
from ._rows import check_positive, check_rows, paired_rows, unit_rows


def swav(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    prototypes: Float[Tensor, "k e"],
    *,
    temperature: float | int = 0.1,
    epsilon: float | int = 0.05,
    iterations: int = 3,
) -> Float[Tensor, ""]:
    """Swapped prediction of balanced prototype assignments; all rows are normalised.

    >>> import torch
    >>> swav(torch.ones(4, 2), torch.ones(4, 2), torch.ones(3, 2))  # log 3
    tensor(1.0986)
    """
    _check(temperature, epsilon, iterations)
    u, v = paired_rows(u, v)
    check_rows(prototypes, "prototypes")
    if prototypes.shape[1] != u.shape[1]:
        raise ShapeError(
            f"prototypes need rows of the embeddings' width {u.shape[1]}: got "
            f"{tuple(prototypes.shape)}."
        )
    directions = unit_rows(prototypes).to(u)
    scores = [x @ directions.T for x in (u, v)]
    sure = [sinkhorn(s.detach() / epsilon, iterations) for s in scores]
    guess = [(s / temperature).log_softmax(1) for s in scores]
    return -((sure[1] * guess[0]).sum(1) + (sure[0] * guess[1]).sum(1)).mean() / 2


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


def _check(temperature: float | int, epsilon: float | int, iterations: int) -> None:
    check_positive("temperature", temperature)
    check_positive("epsilon", epsilon)
    if iterations < 1:
        raise SettingError(f"iterations must be at least 1: got {iterations}.")


class SwAV(Objective):
    """``swav`` with its settings and its prototypes, which are learned."""

    def __init__(
        self,
        width: int,
        n_prototypes: int = 3000,
        *,
        temperature: float | int = 0.1,
        epsilon: float | int = 0.05,
        iterations: int = 3,
    ) -> None:
        super().__init__()
        _check(temperature, epsilon, iterations)
        if width < 1 or n_prototypes < 2:
            raise SettingError(
                "SwAV needs a width of at least 1 and at least 2 prototypes: got "
                f"{width} and {n_prototypes}."
            )
        self.prototypes = nn.Parameter(unit_rows(torch.randn(n_prototypes, width)))
        self.temperature = temperature
        self.epsilon = epsilon
        self.iterations = iterations

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return swav(
            u,
            v,
            self.prototypes,
            temperature=self.temperature,
            epsilon=self.epsilon,
            iterations=self.iterations,
        )
