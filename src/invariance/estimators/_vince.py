r"""VINCE: InfoNCE with negatives that were chosen, and what that is worth.

$$I \ge E_q\Big[W\log\frac{e^{g_1}}{\frac1K\sum_k e^{g_k}}\Big],\qquad
W = \prod_{k\ge2}\frac{p(y_k)}{q(y_k\mid y_1)},\qquad
\frac pq = \frac{Z_r}{r}$$

for negatives accepted with probability r, at the rate Z_r = E_p[r]. The weighted form
is an exact change of measure: it equals InfoNCE in expectation wherever r > 0, and the
product makes its variance grow with K. Without weights (W = 1) the value is a lower
bound only if the accepted negatives score at least as high as random ones (HARD
negatives); with easy ones it overshoots. A hard cut-off has r = 0 outside, where p/q
does not exist, so only the unweighted form applies to it.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..partition import softplus
from ._score_bounds import joint, others


def acceptance_log_ratio(
    log_accept: Float[Tensor, "n k"], log_rate: Float[Tensor, " n"]
) -> Float[Tensor, "n k"]:
    """Log p/q = log Z_r - log r of accepted negatives.

    Args:
        log_accept: log r of each accepted negative given its anchor.
        log_rate: log Z_r of each anchor, such as its share of accepted proposals.
    """
    if torch.isneginf(log_accept).any():
        raise SettingError(
            "A negative that was accepted with probability 0 has no weight p/q: use a "
            "soft acceptance, or the unweighted form with hard negatives."
        )
    return log_rate[:, None] - log_accept


def vince(
    positive: Float[Tensor, " n"],
    negatives: Float[Tensor, "n k"],
    log_ratio: Float[Tensor, "n k"] | None = None,
    *,
    self_normalize: bool = False,
    paper_constant: bool = False,
) -> Float[Tensor, ""]:
    """The value, in nats, from each anchor's K - 1 = k chosen negatives.

    Args:
        positive: The scores g_1 of partners, which stay among the K candidates.
        negatives: The scores of the chosen negatives.
        log_ratio: log p/q of each, as ``acceptance_log_ratio`` gives them; None is the
            unweighted form, a bound for hard negatives only.
        self_normalize: Divide the weights by their mean, which trades the exactness of
            the expectation for less variance.
        paper_constant: Add the paper's - K + 1, which no bound needs and which makes it
            vacuous; for comparison only.
    """
    size = negatives.shape[1] + 1
    logits = torch.cat([positive[:, None], negatives], 1)
    terms = positive - logits.logsumexp(1) + math.log(size)
    if log_ratio is not None:
        log_weight = log_ratio.sum(1)
        if self_normalize:
            log_weight = log_weight - log_weight.logsumexp(0) + math.log(len(positive))
        terms = log_weight.exp() * terms
    return terms.mean() - (size - 1 if paper_constant else 0)


def hard_negatives(
    scores: Float[Tensor, "*s n n"], fraction: float | int = 0.5
) -> Float[Tensor, "*s"]:
    """The unweighted value with each row's highest-scoring ``fraction`` of strangers.

    They score at least as high as as many random ones, row by row, so the value stays
    below InfoNCE with that number of candidates, and so below I.
    """
    if not 0 < fraction <= 1:
        raise SettingError(f"fraction must be above 0 and at most 1, got {fraction}.")
    k = max(1, math.ceil(fraction * (scores.shape[-1] - 1)))
    hard = others(scores).topk(k, -1, sorted=False).values.logsumexp(-1)
    loss = softplus(hard - joint(scores))
    return math.log(k + 1) - loss.mean(-1)
