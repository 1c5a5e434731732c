"""The log-partition as fused kernels: what ``backend="triton"`` runs.

Importing this imports Triton, so the operators do it when they are called. The kernels
themselves: ``_sums`` forward, ``_gradient`` and ``_weights`` backward, ``_prepare``
before either; ``_forward``, ``_backward`` and ``_wide`` launch them, ``_pair_loss`` for
a whole loss of two views, ``_classes`` for sums over a class. Sizes that differ from
batch to batch are no reason to compile a kernel again (``do_not_specialize``).
"""

from ._backward import restored, row_gradient
from ._classes import class_pull
from ._forward import log_partitions, row_sums
from ._lengths import unit_rows, unit_rows_backward
from ._pair_loss import PairLoss, pair_loss, row_gradients
from ._problem import Problem, round_to_tiles
from ._weighing import slope_weights, softmax_weights
from ._wide import wide_gradients

__all__ = [
    "PairLoss",
    "Problem",
    "class_pull",
    "log_partitions",
    "pair_loss",
    "restored",
    "round_to_tiles",
    "row_gradient",
    "row_gradients",
    "row_sums",
    "slope_weights",
    "softmax_weights",
    "unit_rows",
    "unit_rows_backward",
    "wide_gradients",
]
