"""Slow, obvious float64 twins of every objective, negative and metric: loops.

Each takes float64 tensors and the public function's keyword arguments and defaults.
Objectives return a 0-d tensor that autograd can go back through; metrics return floats.
Nothing here imports the package it checks.
"""

from .kernels import align_uniform, kcl
from .many_views import multi_view
from .metrics import (
    alignment,
    effective_rank,
    effective_sample_size,
    effective_share,
    tolerance,
    uniformity,
    wasserstein_to_uniform,
)
from .negatives import (
    acceptance_weights,
    against,
    ball,
    bank_update,
    binary_nce,
    binary_nce_of,
    close_rows,
    concentration,
    control_variate,
    importance,
    local_aggregation,
    logits_of,
    monte_carlo,
    multi_view_against,
    not_own,
    queue_rows,
    rank_of_share,
    ring,
    stratified,
    sup_con_against,
)
from .non_contrastive import barlow_twins, byol, sim_siam, swav, vicreg
from .partition import log_partition
from .sequences import predictive_coding
from .softmax_family import (
    dcl,
    debiased,
    dhel,
    dv,
    flat_nce,
    info_nce,
    jsd,
    nt_xent,
    sig_lip,
    sup_con,
)

__all__ = [
    "acceptance_weights",
    "against",
    "align_uniform",
    "alignment",
    "ball",
    "bank_update",
    "barlow_twins",
    "binary_nce",
    "binary_nce_of",
    "byol",
    "close_rows",
    "concentration",
    "control_variate",
    "dcl",
    "debiased",
    "dhel",
    "dv",
    "effective_rank",
    "effective_sample_size",
    "effective_share",
    "flat_nce",
    "importance",
    "info_nce",
    "jsd",
    "kcl",
    "local_aggregation",
    "log_partition",
    "logits_of",
    "monte_carlo",
    "multi_view",
    "multi_view_against",
    "not_own",
    "nt_xent",
    "predictive_coding",
    "queue_rows",
    "rank_of_share",
    "ring",
    "sig_lip",
    "sim_siam",
    "stratified",
    "sup_con",
    "sup_con_against",
    "swav",
    "tolerance",
    "uniformity",
    "vicreg",
    "wasserstein_to_uniform",
]
