"""Claims of the page on contrastive learning."""

from .._claim import collect_claims
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

CLAIMS = collect_claims(
    "page",
    log_n_off_by_one,
    align_uniform_split,
    collapse,
    small_tau,
    moco_roles,
    queue_or_batch,
    more_negatives,
    exercise_negatives,
    exercise_head,
)
