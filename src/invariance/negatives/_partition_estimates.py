r"""Estimates of a partition $Z = \mathrm E_{p}\,e^{s}$ from few of its terms.

All return log Z-hat, one per anchor. Each Z-hat is unbiased; its logarithm is low on
average (Jensen), so a mutual information that leaves the positive out comes out high.

- plain Monte Carlo: the mean over draws from p;
- importance sampling: draws from q, weights p/q. With $q\propto p\,e^{s}$ the variance
  is zero; sampled softmax is this with logits $s - \log(K q)$;
- stratified: the mean within each stratum, weighted by the stratum's probability. Never
  worse than plain Monte Carlo with proportional allocation;
- control variate: the mean of $e^{s} - c\,(h - \mathrm E h)$ with
  $h = 1 + s + s^2/2$, whose mean follows from the first two moments of the rows. The
  estimate can be negative and is then raised to a floor, which biases it, as does
  choosing c from the same draws (by O(1/K)); with c given and no clamping it is exact.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import ShapeError


def monte_carlo_partition(s: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
    """Log of the mean of exp(s) over k draws from p.

    >>> monte_carlo_partition(torch.tensor([[1.0, 1.0]]))
    tensor([1.])
    """
    return s.logsumexp(1) - math.log(s.shape[1])


def importance_partition(
    s: Float[Tensor, "n k"], log_ratio: Float[Tensor, "n k"]
) -> Float[Tensor, " n"]:
    """Log of the weighted mean over k draws from q; ``log_ratio`` is log p - log q."""
    return monte_carlo_partition(s + log_ratio)


def stratified_partition(
    s: Float[Tensor, "n k"],
    stratum: Int[Tensor, " k"],
    probability: Float[Tensor, " h"],
) -> Float[Tensor, " n"]:
    """Log of the strata's means, weighted by their probabilities.

    Args:
        s: Logits of k draws, each from p within its stratum.
        stratum: Which stratum each draw is from.
        probability: p of each stratum; every stratum needs a draw.
    """
    counts = torch.bincount(stratum, minlength=len(probability))
    if len(counts) > len(probability) or bool((counts == 0).any()):
        raise ShapeError(
            f"Each of the {len(probability)} strata needs at least one draw: they have "
            f"{counts.tolist()}."
        )
    weight = probability.log() - counts.to(probability).log()
    return (s + weight.to(s)[stratum]).logsumexp(1)


def control_variate_partition(
    u: Float[Tensor, "n d"],
    z: Float[Tensor, "k d"],
    *,
    scale: float | int,
    mean: Float[Tensor, " d"],
    second_moment: Float[Tensor, "d d"],
    coefficient: float | int | None = None,
) -> Float[Tensor, " n"]:
    """Log of the Monte Carlo mean, corrected by what a quadratic is known to average.

    Args:
        u: Anchors.
        z: Rows drawn from p.
        scale: Inverse temperature: s = scale * u . z.
        mean: E z under p.
        second_moment: E z z' under p.
        coefficient: c; None takes the best for these draws, Cov / Var.
    """
    s = scale * u @ z.T
    quadratic = 1 + s + s**2 / 2
    first = scale * (u @ mean)
    second = scale**2 * torch.einsum("nd,de,ne->n", u, second_moment, u)
    expected = (1 + first + second / 2)[:, None]
    top = s.max(1, keepdim=True).values
    terms = (s - top).exp()
    if coefficient is None:
        known = quadratic - quadratic.mean(1, keepdim=True)
        spread = known.square().sum(1, keepdim=True)
        # draws that are all alike tell nothing about c
        c = (terms * known).sum(1, keepdim=True) / spread.where(spread > 0, 1.0)
    else:
        c = coefficient * (-top).exp()
    corrected = (terms - c * (quadratic - expected)).mean(1)
    floor = torch.finfo(s.dtype).tiny
    return corrected.clamp_min(floor).log() + top[:, 0]
