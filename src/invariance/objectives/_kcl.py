r"""KCL: a kernel pulls the two views together and pushes the samples of a view apart.

$$L = -2\,\frac1n\sum_i k(u_i, v_i) + \gamma\Big[\binom n2^{-1}\sum_{i<j} k(u_i, u_j)
+ \binom n2^{-1}\sum_{i<j} k(v_i, v_j)\Big]$$

Means over pairs, no logarithm outside: the expected loss does not depend on n, so a
small batch is only a noisier one. D = |x - y|:

| kernel | k(x, y) |
|---|---|
| gaussian | exp(-t D^2) |
| log | -(1/2) log(1 + t D^2); the released code's alignment is twice this |
| imq | c / sqrt(c^2 + D^2) with c = t |
| riesz | sign(s) D^(-s); s > 0 has no floor when views coincide, see the next |
| gaussian_riesz | energy riesz(s), alignment gaussian(t): the safe way to use s > 0 |

A row on top of another gets no gradient from a kernel with a cusp there (riesz).
"""

from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..partition import fused_loss
from ._contrast import log_count
from ._kernels import mean_kernels, pair_kernel
from ._objective import Objective
from ._rows import (
    check_choice,
    check_number,
    check_pair,
    check_positive,
    ready_rows,
    tile_precision,
)

KERNELS = ("gaussian", "log", "imq", "riesz", "gaussian_riesz")


def kcl(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    kernel: str = "gaussian",
    gamma: float | int = 16.0,
    t: float | int = 2.0,
    s: float | int = -1.0,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Kernel energy within the views minus kernel alignment across them.

    >>> import torch
    >>> z = torch.eye(3)  # every D^2 within a view is 2
    >>> kcl(z, z, gamma=0.0), kcl(z, z, gamma=1.0, t=0.5)  # -2, -2 + 2/e
    (tensor(-2.), tensor(-1.2642))
    """
    _check(kernel, gamma, t, s)
    check_pair(u, v)
    precision = tile_precision(u, v)
    if kernel == "gaussian" and normalize:
        loss = fused_loss(
            u,
            v,
            "kernel",
            parameters=(2 * gamma / (len(u) - 1), 2.0 * t),
            scale=2 * t,  # of unit rows: D^2 is 2 minus twice the score
            negatives="within",
            log_count=log_count(len(u), "within"),
            precision=precision,
        )
        if loss is not None:
            return loss
    u, v = ready_rows(u, normalize), ready_rows(v, normalize)
    energy, alignment = {
        "riesz": (("riesz", s), ("riesz", s)),
        "gaussian_riesz": (("riesz", s), ("gaussian", t)),
    }.get(kernel, ((kernel, t), (kernel, t)))
    spread = mean_kernels((u, v), *energy, unit=normalize, precision=precision)
    return gamma * spread - 2 * pair_kernel(u, v, *alignment).mean()


def _check(kernel: str, gamma: float | int, t: float | int, s: float | int) -> None:
    check_choice("kernel", kernel, KERNELS)
    check_number("gamma", gamma)
    check_positive("t", t)
    check_number("s", s)
    if s == 0:
        raise SettingError("s must not be 0: D^0 is the same for every pair.")


class KCL(Objective):
    """``kcl`` with its settings."""

    def __init__(
        self,
        kernel: str = "gaussian",
        *,
        gamma: float | int = 16.0,
        t: float | int = 2.0,
        s: float | int = -1.0,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        _check(kernel, gamma, t, s)
        self.kernel = kernel
        self.gamma = gamma
        self.t = t
        self.s = s
        self.normalize = normalize

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return kcl(
            u,
            v,
            kernel=self.kernel,
            gamma=self.gamma,
            t=self.t,
            s=self.s,
            normalize=self.normalize,
        )
