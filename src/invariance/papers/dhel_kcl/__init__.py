"""Claims of the summary of the DHEL and KCL paper."""

from .._claim import collect_claims
from . import (
    augmentation_strength,
    convexity,
    dhel_parts,
    kcl_batch_free,
    kcl_gradient_variance,
    rank_dhel,
    released_dhel,
    same_minimizer,
    simplex,
    small_batches_dhel,
    temperature_sensitivity,
    uniformity_predictors,
)

CLAIMS = collect_claims(
    "dhel_kcl",
    simplex,
    same_minimizer,
    convexity,
    released_dhel,
    dhel_parts,
    kcl_batch_free,
    kcl_gradient_variance,
    small_batches_dhel,
    rank_dhel,
    temperature_sensitivity,
    augmentation_strength,
    uniformity_predictors,
)
