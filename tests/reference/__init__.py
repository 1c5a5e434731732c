"""Slow, obvious float64 twins of every objective and metric: loops over i and j.

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
    tolerance,
    uniformity,
    wasserstein_to_uniform,
)
from .non_contrastive import barlow_twins, byol, sim_siam, swav, vicreg
from .partition import log_partition
from .softmax_family import (
    dcl,
    debiased,
    dhel,
    flat_nce,
    info_nce,
    nt_xent,
    sig_lip,
    sup_con,
)

__all__ = [
    "align_uniform",
    "alignment",
    "barlow_twins",
    "byol",
    "dcl",
    "debiased",
    "dhel",
    "effective_rank",
    "effective_sample_size",
    "flat_nce",
    "info_nce",
    "kcl",
    "log_partition",
    "multi_view",
    "nt_xent",
    "sig_lip",
    "sim_siam",
    "sup_con",
    "swav",
    "tolerance",
    "uniformity",
    "vicreg",
    "wasserstein_to_uniform",
]
