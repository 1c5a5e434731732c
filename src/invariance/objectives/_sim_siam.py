r"""SimSiam: BYOL with the online network as its own target.

$$L = -\frac1{2n}\sum_i \cos(u_i, \mathrm{sg}\,v'_i) + \cos(v_i, \mathrm{sg}\,u'_i)$$

u, v are predictions, u', v' the projections they predict, without gradient.
-1 <= L <= 1; L near -1 from the start is a sign of collapse, not of success.
"""

from jaxtyping import Float
from torch import Tensor

from ._byol import cosines
from ._declared_settings import Gather, Reduction, check_settings, reduce, settings_of
from ._objective import Objective


@check_settings
def sim_siam(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    target_u: Float[Tensor, "n d"] | None = None,
    target_v: Float[Tensor, "n d"] | None = None,
    *,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Mean negative cosine of predictions with the other view's projections.

    Without targets the rows themselves, detached, are the targets.

    >>> import torch
    >>> sim_siam(torch.eye(2), torch.eye(2))
    tensor(-1.)
    """
    return -reduce(cosines(u, v, target_u, target_v, gather), reduction) / 2


class SimSiam(Objective):
    """``sim_siam`` with its settings."""

    __init__ = settings_of(sim_siam)
    takes = "targets"
