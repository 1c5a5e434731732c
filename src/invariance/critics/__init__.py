"""Critics: networks that score how well a row of x and a row of y fit together.

>>> import torch
>>> from invariance.critics import build_critic
>>> critic = build_critic("separable", 3, 2)
>>> critic(torch.randn(4, 3), torch.randn(5, 2)).shape
torch.Size([4, 5])

They are what mutual-information estimators train, and what a method may score its pairs
with instead of the cosine (``Method.critic``). ``Exact`` is the critic nobody has
outside of tests, and ``Gaussian`` a good one to start from.
"""

from ._critic import PENALTIES, Critic, gradient_penalty, mlp
from ._fixed import (
    Exact,
    Gaussian,
    Lift,
    Lifted,
    Residual,
    Symmetric,
    gaussian_critic,
    lifted_gaussian_critic,
)
from ._log_sums import LogSums, log_sums
from ._networks import (
    CRITICS,
    Additive,
    Bilinear,
    Concatenated,
    Cosine,
    Separable,
    build_critic,
)

__all__ = [
    "CRITICS",
    "PENALTIES",
    "Additive",
    "Bilinear",
    "Concatenated",
    "Cosine",
    "Critic",
    "Exact",
    "Gaussian",
    "Lift",
    "Lifted",
    "LogSums",
    "Residual",
    "Separable",
    "Symmetric",
    "build_critic",
    "gaussian_critic",
    "gradient_penalty",
    "lifted_gaussian_critic",
    "log_sums",
    "mlp",
]
