"""Claims of the page on contrastive learning."""

from . import align_uniform_split, exercise_negatives, log_n_off_by_one

CLAIMS = (
    log_n_off_by_one.CLAIM,
    align_uniform_split.CLAIM,
    exercise_negatives.CLAIM,
)
