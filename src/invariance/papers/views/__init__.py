"""Claims of the paper on the importance of views."""

from . import (
    acceptance_gradient,
    corollary_constant,
    hard_safe_easy_overshoots,
    la_not_a_bound,
    rejection_normalizer,
    ring_positive,
    spirals,
    vince_constant,
    vince_weighted,
)

CLAIMS = (
    vince_constant.CLAIM,
    rejection_normalizer.CLAIM,
    hard_safe_easy_overshoots.CLAIM,
    corollary_constant.CLAIM,
    vince_weighted.CLAIM,
    spirals.CLAIM,
    ring_positive.CLAIM,
    la_not_a_bound.CLAIM,
    acceptance_gradient.CLAIM,
)
