"""Claims of the summary of the DHEL and KCL paper."""

from . import (
    convexity,
    kcl_batch_free,
    kcl_gradient_variance,
    released_dhel,
    same_minimizer,
    simplex,
)

CLAIMS = (
    simplex.CLAIM,
    same_minimizer.CLAIM,
    convexity.CLAIM,
    released_dhel.CLAIM,
    kcl_batch_free.CLAIM,
    kcl_gradient_variance.CLAIM,
)
