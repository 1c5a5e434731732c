"""Claims of the summary of the DHEL and KCL paper."""

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

CLAIMS = (
    simplex.CLAIM,
    same_minimizer.CLAIM,
    convexity.CLAIM,
    released_dhel.CLAIM,
    dhel_parts.CLAIM,
    kcl_batch_free.CLAIM,
    kcl_gradient_variance.CLAIM,
    small_batches_dhel.CLAIM,
    rank_dhel.CLAIM,
    temperature_sensitivity.CLAIM,
    augmentation_strength.CLAIM,
    uniformity_predictors.CLAIM,
)
