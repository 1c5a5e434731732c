"""Claims of the page on contrastive learning."""

from . import (
    align_uniform_split,
    collapse,
    exercise_head,
    exercise_negatives,
    log_n_off_by_one,
    moco_roles,
    more_negatives,
    queue_or_batch,
    small_tau,
)

CLAIMS = (
    log_n_off_by_one.CLAIM,
    align_uniform_split.CLAIM,
    collapse.CLAIM,
    small_tau.CLAIM,
    moco_roles.CLAIM,
    queue_or_batch.CLAIM,
    more_negatives.CLAIM,
    exercise_negatives.CLAIM,
    exercise_head.CLAIM,
)
