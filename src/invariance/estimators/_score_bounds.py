r"""Bounds and estimates of I(X;Y) that are pure functions of one score matrix.

$$g_{ij} = g(x_i,y_j):\quad g_{ii}\sim p(x,y),\qquad g_{ij}\sim p(x)p(y)\;(i\ne j)$$

Partners are on the diagonal, strangers everywhere else; E_p is the mean over partners,
E_q over strangers. Values are in nats. Leading axes are kept, so that critics of
several seeds can be scored at once.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ..partition import softplus

# One batch with a huge score would fill MINE's average for thousands of steps, in which
# strangers weigh nothing and the critic runs away: the average forgets it at once.
MOST_BEHIND = 1.0
# How far below the log of the number of strangers scores are clipped when they are
# read: with 3, one pair weighs at most e^-3, about 0.05.
TAIL = 3.0


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


def reach(n: int) -> float:
    """The highest score that the strangers among n rows can check: log n (n - 1) - 3.

    >>> round(reach(300), 2)
    8.4
    """
    return math.log(n * (n - 1)) - TAIL


def clip_tails(
    scores: Float[Tensor, "*s n n"], level: Float[Tensor, "*s n"] | float | int = 0.0
) -> Float[Tensor, "*s n n"]:
    r"""Scores within what n rows can check; ``level`` is log a(x_i), if there is one.

    $$g_{ij} \leftarrow \mathrm{clip}\big(g_{ij},\; \log a(x_i) \pm t\big),\qquad
    t = \log n(n-1) - 3$$

    The mean of e^g / a over n (n - 1) strangers tells little about scores near the log
    of their number. If no stranger happens to have one, the value comes out above the
    information; if one has, thousands of nats below. Clipped, no pair weighs more than
    e^-3, the mean Z has a variance of at most e^-3 Z if pairs were independent, and
    what is read is still a bound, the one of the clipped critic. From below, one
    partner that the critic has never seen the like of costs t / n nats at most.

    >>> import torch
    >>> clip_tails(torch.tensor([[9.0] * 6] * 6))[0, 0]
    tensor(0.4012)
    """
    t = max(0.0, reach(scores.shape[-1]))
    level = torch.as_tensor(level, dtype=scores.dtype, device=scores.device)[..., None]
    return scores.clamp(level - t, level + t)


def info_nce(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    r"""InfoNCE: find the partner among n candidates, of which it is one.

    $$I \ge \log n - \frac1n\sum_i\Big[\log\sum_j e^{g_{ij}} - g_{ii}\Big]$$

    A lower bound for any critic, with little variance, that never exceeds log n. Its
    best critic is free up to c(x), so the mean of g over partners estimates nothing.

    >>> import torch
    >>> info_nce(torch.zeros(4, 4))
    tensor(0.)
    """
    loss = softplus(others(scores).logsumexp(-1) - joint(scores))
    return math.log(scores.shape[-1]) - loss.mean(-1)


def flat_nce_loss(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    r"""FlatNCE: InfoNCE's critic trained without its vanishing gradient.

    $$L = \frac1n\sum_i\exp\big(v_i - \mathrm{sg}\,v_i\big),\qquad
    v_i = \log\sum_{j\ne i} e^{g_{ij}-g_{ii}}$$

    L is always 1; its gradient is that of v, InfoNCE's divided by the probability of a
    mistake. What is read off is the InfoNCE value of the critic, with its ceiling: the
    leave-one-out value of v overshoots.
    """
    v = others(scores).logsumexp(-1) - joint(scores)
    return (v - v.detach()).exp().mean(-1)


def fdv_loss(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """FDV: minus the InfoNCE value, with FlatNCE's gradient."""
    return flat_nce_loss(scores) - 1 - info_nce(scores.detach())


def leave_one_out(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    r"""Unnormalized Barber-Agakov with Z(x) estimated from the other n - 1 rows.

    $$\hat I = E_p[g] - E_{p(x)}\log\hat Z(x)$$

    The logarithm of an estimated Z is too low on average (Jensen), so the value comes
    out too HIGH: an estimate that overshoots, not a bound.

    >>> import torch
    >>> leave_one_out(torch.eye(3))
    tensor(1.)
    """
    return (joint(scores) - log_mean_by_row(scores)).mean(-1)


def unnormalized_ba(
    positive: Float[Tensor, "*s n"], log_normalizer: Float[Tensor, "*s n"]
) -> Float[Tensor, "*s"]:
    r"""Unnormalized Barber-Agakov where Z is known: then it is a bound.

    $$I \ge E_p[g] - E_{p(x)}\log Z(x),\qquad Z(x) = E_{p(y)}e^{g(x,y)}$$
    """
    return (positive - log_normalizer).mean(-1)


def tuba(
    scores: Float[Tensor, "*s n n"], log_baseline: Float[Tensor, "*s n"]
) -> Float[Tensor, "*s"]:
    r"""TUBA: the logarithm of the normalizer made linear, with log a(x_i) of each row.

    $$I \ge 1 + E_p\Big[g - \log a(x)\Big] - E_q\Big[\frac{e^{g}}{a(x)}\Big]$$

    Unbiased on a mini-batch and a lower bound for any critic g and any positive a, with
    a variance that grows like e^I.
    """
    tilted = scores - log_baseline[..., None]
    return 1 + joint(tilted).mean(-1) - log_mean(tilted).exp()


def nwj(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    r"""Nguyen, Wainwright and Jordan: TUBA with a = e, also called f-GAN KL.

    $$I \ge E_p[g] - E_q[e^{g-1}]$$

    The best critic is 1 + log p(x,y)/p(x)p(y); mixing that up with
    log p(x,y)/p(x)p(y) costs 1/e nats at the optimum.

    >>> import torch
    >>> nwj(torch.ones(3, 3))
    tensor(0.)
    """
    return joint(scores).mean(-1) - log_mean(scores - 1).exp()


def nwj_of_log_ratio(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """The same bound for critics of log p(x,y)/p(x)p(y): ``nwj(scores + 1)``."""
    return 1 + joint(scores).mean(-1) - log_mean(scores).exp()


def donsker_varadhan(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    r"""Donsker and Varadhan, with the mean of exp over all strangers.

    $$I \ge E_p[g] - \log E_q[e^g]$$

    A bound for the true expectations. The logarithm of a mini-batch mean is too low on
    average, so on a finite sample the value is an estimate that leans upwards.

    >>> import torch
    >>> donsker_varadhan(torch.full((3, 3), 7.0))
    tensor(0.)
    """
    return joint(scores).mean(-1) - log_mean(scores)


def mine_loss(
    scores: Float[Tensor, "*s n n"],
    log_average: Float[Tensor, "*s"] | None,
    rate: float | int = 0.05,
) -> tuple[Float[Tensor, "*s"], Float[Tensor, "*s"]]:
    r"""MINE: a loss with its gradient, and the log of the new moving average.

    $$\nabla_{\text{MINE}} = E_p[\nabla g] - \frac{E_q[e^g\nabla g]}{\bar m},\quad
    \bar m \leftarrow (1-\alpha)\bar m + \alpha\,E_q[e^g]$$

    Trains Donsker and Varadhan's bound without the bias of small batches. The average
    starts at the first batch, takes each batch in before it is used, and is never more
    than a factor e above the batch's own mean. The loss only carries the gradient; the
    value to read is ``donsker_varadhan``.
    """
    now = log_mean(scores)
    if log_average is None:
        average = now.detach()
    else:
        average = torch.logaddexp(
            log_average + math.log1p(-rate), now.detach() + math.log(rate)
        )
        average = torch.minimum(average, now.detach() + MOST_BEHIND)
    return (now - average).exp() - joint(scores).mean(-1), average


def jensen_shannon(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    r"""Jensen-Shannon: tell partners from strangers; to be maximized.

    $$J = -E_p\,\mathrm{sp}(-T) - E_q\,\mathrm{sp}(T)\le 0,\qquad
    T^* = \log\frac{p(x,y)}{p(x)p(y)}$$

    -2 log 2 for a critic that knows nothing, 0 at best. J itself says nothing about
    information, but its critic is the log ratio, and the NWJ bound of T + 1 turns that
    into nats. Without the + 1, as released codes have it, the optimum reads I - 1/e.

    >>> import torch
    >>> jensen_shannon(torch.zeros(3, 3))
    tensor(-1.3863)
    """
    partners = softplus(-joint(scores)).mean(-1)
    return -partners - mean_of_others(softplus(scores))


def binary_nce(
    scores: Float[Tensor, "*s n n"], noise: int | None = None
) -> Float[Tensor, "*s"]:
    """Binary NCE's log-likelihood, ``noise`` strangers per partner (all by default).

    With k of them it trains sigmoid(T - log k); leaving out log k would make
    log p(x,y)/p(x)p(y) - log k the optimum.
    """
    k = scores.shape[-1] - 1 if noise is None else noise
    shifted = scores - math.log(k)
    partners = softplus(-joint(shifted)).mean(-1)
    return -partners - k * mean_of_others(softplus(shifted))


def smile(
    scores: Float[Tensor, "*s n n"], clip: float | int = 5.0
) -> Float[Tensor, "*s"]:
    r"""SMILE: Donsker-Varadhan on a Jensen-Shannon critic, with the partition clipped.

    $$\hat I = E_p[T] - \log E_q\big[\mathrm{clip}(e^T, e^{-c}, e^{c})\big]$$

    Clipping the partition (and only it) trades variance for bias; c = inf is plain
    Donsker-Varadhan. An estimate, not a bound, but one that log n does not stop.

    >>> import torch
    >>> smile(torch.diag(torch.full((3,), 9.0)), clip=1)
    tensor(9.)
    """
    return joint(scores).mean(-1) - log_mean(scores.clamp(-clip, clip))


def flo(
    scores: Float[Tensor, "*s n n"], dual: Float[Tensor, "*s n"]
) -> Float[Tensor, "*s"]:
    r"""FLO, the Fenchel-Legendre bound: every pair of partners has its normalizer u.

    $$I \ge 1 - E_p[u(x,y)] - E\big[e^{-u(x,y) + g(x,y') - g(x,y)}\big],\qquad
    u^* = \log E_{y'}e^{g(x,y')-g(x,y)}$$

    A lower bound in expectation for any critic g and any dual u, unbiased on
    mini-batches and not stopped by log n; at the best critic u* is minus the pointwise
    information. The mean over the n - 1 strangers of a row only lowers the variance.

    >>> import torch
    >>> flo(torch.zeros(3, 3), torch.zeros(3))
    tensor(0.)
    """
    contrast = log_mean_by_row(scores) - joint(scores)
    return 1 - (dual + (contrast - dual).exp()).mean(-1)


def interpolated(
    scores: Float[Tensor, "*s n n"],
    log_baseline: Float[Tensor, "*s n"],
    alpha: float | int = 0.5,
) -> Float[Tensor, "*s"]:
    r"""Between InfoNCE and a learned baseline; ``log_baseline`` is log a(x_i).

    $$I \ge 1 + E\Big[g_{ii} - \log b_i\Big] - E\Big[\frac{e^{g_{ij}}}{b'_i}\Big],\qquad
    b = \alpha\,m + (1-\alpha)\,a(x)$$

    m is the mean of exp(g) over n - 1 candidates: with the partner and without one
    other row in the first term, without the partner in the second. Both have n - 1
    members, which is what keeps it a bound. alpha = 1 is InfoNCE over n - 1 candidates
    (less variance, ceiling log(n - 1)), alpha = 0 is TUBA; between, no sample shows
    more than 1 + log((n-1)/alpha).
    """
    with_partner = _log_mean_without_each(scores)
    without_partner = log_mean_by_row(scores)
    first = _mix(with_partner, log_baseline[..., None].expand_as(scores), alpha)
    second = _mix(without_partner, log_baseline, alpha)
    partners = mean_of_others(joint(scores)[..., None] - first)
    strangers = (log_mean_by_row(scores) - second).exp().mean(-1)
    return 1 + partners - strangers


def _mix(a: Tensor, b: Tensor, alpha: float | int) -> Tensor:
    """Log of alpha e^a + (1 - alpha) e^b."""
    if alpha in (0, 1):
        return a if alpha == 1 else b
    return torch.logaddexp(a + math.log(alpha), b + math.log1p(-alpha))


def _log_mean_without_each(scores: Tensor) -> Tensor:
    """Entry ij: log of the mean of exp over row i without column j."""
    n = scores.shape[-1]
    total = scores.logsumexp(-1, keepdim=True)
    # log(e^total - e^score): safe unless the score is nearly the whole row, which only
    # the largest can be; that one is summed anew without it
    largest = torch.zeros_like(scores, dtype=torch.bool).scatter(
        -1, scores.argmax(-1, keepdim=True), True
    )
    rest = scores.masked_fill(largest, -math.inf).logsumexp(-1, keepdim=True)
    share = (scores - total).exp().masked_fill(largest, 0.0)
    without = total + torch.log1p(-share.clamp(max=0.75))
    return torch.where(largest, rest, without) - math.log(n - 1)
