r"""Jointly Gaussian pairs: the yardstick of every paper on estimators.

$$I(X;Y) = \tfrac12\log\frac{|\Sigma_x|\,|\Sigma_y|}{|\Sigma|}
= -\tfrac12\sum_k\log(1-\rho_k^2)$$

with the canonical correlations rho_k. The usual one has d columns in each variable,
column k of x correlated rho with column k of y and with nothing else; at I nats in all,
rho = sqrt(1 - exp(-2 I / d)).
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ._pairs import Pairs, normals

SCHEDULE = (2.0, 4.0, 6.0, 8.0, 10.0)
"""The nats of the published comparisons, one after the other."""


def rho_of(nats: float | int, dim: int) -> float:
    """The correlation of ``dim`` column pairs that together share ``nats``."""
    if nats < 0 or dim < 1:
        raise SettingError(f"Expected nats >= 0 and dim >= 1, got {nats} and {dim}.")
    return math.sqrt(-math.expm1(-2 * nats / dim))


def correlated_gaussian(
    dim: int, *, nats: float | int | None = None, rho: float | int | None = None
) -> Pairs:
    """``dim`` columns each, the k-th of x correlated with the k-th of y only.

    >>> round(correlated_gaussian(20, rho=0.5).nats, 4)
    2.8768
    """
    if (nats is None) == (rho is None):
        raise SettingError("Give either nats or rho, and not both.")
    if nats is not None:
        rho = rho_of(nats, dim)
    assert rho is not None
    return canonical_gaussian([rho] * dim, x_width=dim, y_width=dim)


def canonical_gaussian(
    rhos: Sequence[float | int], *, x_width: int, y_width: int
) -> Pairs:
    """Correlations ``rhos`` between the first columns; the other columns are noise."""
    if len(rhos) > min(x_width, y_width) or not all(-1 < r < 1 for r in rhos):
        raise SettingError(
            f"Expected at most min({x_width}, {y_width}) correlations between -1 and 1,"
            f" got {list(rhos)}."
        )
    cross = torch.zeros(x_width, y_width, dtype=torch.float64)
    for k, r in enumerate(rhos):
        cross[k, k] = r
    eye = torch.eye(x_width, dtype=torch.float64), torch.eye(y_width).double()
    whole = torch.cat([torch.cat([eye[0], cross], 1), torch.cat([cross.T, eye[1]], 1)])
    alike = len(set(rhos)) == 1 and len(rhos) == x_width == y_width
    about = f"rho={rhos[0]:.3f}" if alike else f"{len(rhos)} correlated"
    return gaussian(
        whole, x_width=x_width, name=f"gaussian {x_width}x{y_width}, {about}"
    )


def gaussian(
    covariance: Float[Tensor, "d d"], *, x_width: int, name: str = ""
) -> Pairs:
    """Any covariance of [x, y], of which the first ``x_width`` columns are x."""
    whole = covariance.double()
    y_width = len(whole) - x_width
    if not 0 < x_width < len(whole):
        raise SettingError(
            f"x_width must leave columns to both, got {x_width} of {len(whole)}."
        )
    factor, info = torch.linalg.cholesky_ex(whole)
    if info.item() or not torch.equal(whole, whole.T):
        raise SettingError("The covariance must be symmetric and positive definite.")

    def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        rows = normals(n, len(whole), generator) @ factor.T
        return rows[:, :x_width], rows[:, x_width:]

    parts = whole[:x_width, :x_width], whole[x_width:, x_width:]
    logdet = [torch.logdet(m).item() for m in (*parts, whole)]
    inverse = [torch.linalg.inv(m) for m in (*parts, whole)]
    nats = (logdet[0] + logdet[1] - logdet[2]) / 2

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        both = torch.cat([x, y], 1)
        forms = [
            torch.einsum("ni,ij,nj->n", z, a, z)
            for z, a in zip((x, y, both), inverse, strict=True)
        ]
        return nats + (forms[0] + forms[1] - forms[2]) / 2

    name = name or f"gaussian {x_width}x{y_width}"
    return Pairs(name, nats, x_width, y_width, draw, ratio)
