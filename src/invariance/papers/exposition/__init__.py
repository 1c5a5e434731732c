"""Claims of the exposition of InfoNCE and SimCLR."""

from . import (
    any_critic,
    bias_in_k,
    binary_nce_log_k,
    cosine_critic,
    dv_minibatch,
    gradient_sign,
    jsd_bound,
    multi_view_bound,
    partition_error,
    partition_sampling,
    printed_proof,
    temperature_focus,
    tight_in_k,
)

CLAIMS = (
    any_critic.CLAIM,
    printed_proof.CLAIM,
    tight_in_k.CLAIM,
    bias_in_k.CLAIM,
    jsd_bound.CLAIM,
    dv_minibatch.CLAIM,
    binary_nce_log_k.CLAIM,
    multi_view_bound.CLAIM,
    gradient_sign.CLAIM,
    temperature_focus.CLAIM,
    cosine_critic.CLAIM,
    partition_error.CLAIM,
    partition_sampling.CLAIM,
)
