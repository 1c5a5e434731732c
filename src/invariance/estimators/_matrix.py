r"""The parts of a critic matrix that bounds are made of.

$$g_{ij} = g(x_i,y_j):\quad g_{ii}\sim p(x,y),\qquad g_{ij}\sim p(x)p(y)\;(i\ne j)$$

Leading axes are kept, so that critics of several seeds can be scored at once.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def joint(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s n"]:
    """The scores of partners."""
    return scores.diagonal(dim1=-2, dim2=-1)


def others(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s n n"]:
    """The scores of strangers: the diagonal becomes -inf, so exp leaves it out."""
    eye = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    return scores.masked_fill(eye, -math.inf)


def log_mean_by_row(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s n"]:
    """Log of the mean of exp over the n - 1 strangers of each row."""
    return others(scores).logsumexp(-1) - math.log(scores.shape[-1] - 1)


def log_mean(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """Log of the mean of exp over all n (n - 1) strangers."""
    n = scores.shape[-1]
    return others(scores).flatten(-2).logsumexp(-1) - math.log(n * (n - 1))


def mean_of_others(values: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """The mean over all pairs of strangers."""
    n = values.shape[-1]
    total = values.sum((-2, -1)) - joint(values).sum(-1)
    return total / (n * (n - 1))
