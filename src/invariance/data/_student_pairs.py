r"""Student-t pairs: heavy tails, and information even between uncorrelated columns.

$$I = -\tfrac12\sum_k\log(1-\rho_k^2) + f(\nu) + f(\nu+m+n) - f(\nu+m) - f(\nu+n),
\qquad f(t) = \log\Gamma(\tfrac t2) - \tfrac t2\,\psi(\tfrac t2)$$

for m and n columns and nu degrees of freedom: the common scale of a row is shared by
all its columns, so that even rho = 0 leaves the second part.
"""

import torch
from torch import Tensor

from ..errors import SettingError
from ._gaussian_pairs import correlated_gaussian
from ._pairs import Pairs


def student(dim: int, *, dof: float | int, rho: float | int = 0.0) -> Pairs:
    """``dim`` columns each, with ``dof`` degrees of freedom.

    >>> round(student(1, dof=3).nats, 5)
    0.04241
    """
    if dof <= 0:
        raise SettingError(f"dof must be above 0, got {dof}.")
    base, nu = correlated_gaussian(dim, rho=rho), float(dof)
    extra = _f(nu) + _f(nu + 2 * dim) - 2 * _f(nu + dim)

    def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, y = base.draw(n, generator)
        scale = (_chi_square(n, nu, generator) / nu).rsqrt()[:, None]
        return x * scale, y * scale

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        xx, yy, xy = (x * x).sum(1), (y * y).sum(1), (x * y).sum(1)
        joint = (xx + yy - 2 * rho * xy) / (1 - rho**2)
        c = [
            torch.lgamma(torch.tensor(t / 2, dtype=torch.float64))
            for t in (nu, nu + 2 * dim, nu + dim)
        ]
        tails = -(nu + 2 * dim) / 2 * torch.log1p(joint / nu) + (nu + dim) / 2 * (
            torch.log1p(xx / nu) + torch.log1p(yy / nu)
        )
        return base.nats + c[0] + c[1] - 2 * c[2] + tails

    return Pairs(
        f"student {dim}x{dim}, {dof} dof, rho={rho:.3f}",
        base.nats + extra,
        dim,
        dim,
        draw,
        ratio,
    )


def _f(t: float) -> float:
    half = torch.tensor(t / 2, dtype=torch.float64)
    return (torch.lgamma(half) - half * torch.digamma(half)).item()


def _chi_square(n: int, dof: float, generator: torch.Generator) -> Tensor:
    """Chi-square draws; torch's own gamma takes no generator."""
    shape = dof / 2
    boost = shape < 1
    d = (shape + 1 if boost else shape) - 1 / 3
    c, out = (9 * d) ** -0.5, torch.full((n,), float("nan"), dtype=torch.float64)
    while (todo := out.isnan()).any():  # Marsaglia and Tsang's rejection
        m = int(todo.sum())
        z = torch.randn(m, generator=generator, dtype=torch.float64)
        u = torch.rand(m, generator=generator, dtype=torch.float64)
        v = (1 + c * z) ** 3
        fits = (v > 0) & (
            u.log() < z * z / 2 + d - d * v + d * v.clamp_min(1e-300).log()
        )
        out[todo] = torch.where(fits, d * v, float("nan"))
    if boost:
        out = out * torch.rand(n, generator=generator, dtype=torch.float64) ** (
            1 / shape
        )
    return 2 * out
