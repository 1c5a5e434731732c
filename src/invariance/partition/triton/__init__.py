"""The log-partition as fused kernels: what ``backend="triton"`` runs.

Importing this imports Triton, so operations do it when they run: they find here what
computes them. Every kernel
stands beside its launch: ``_problem`` prepares rows, ``_forward`` sums over pairs,
``_weights`` says what pairs weigh in a gradient, ``_backward`` and (for many wide rows)
``_wide`` compute it; ``_pair_loss`` is a whole loss of two views, with the formulas of
``_anchor_loss``, ``_classes`` sums over classes. ``_device`` has what kernels share.
Sizes that differ from batch to batch are no reason to compile a kernel again
(``do_not_specialize``).
"""

from ._backward import log_partition_gradients, row_sum_gradients
from ._classes import class_pull
from ._forward import log_partitions, row_sums
from ._pair_loss import pair_loss, pair_loss_gradients
from ._problem import unit_row_gradients, unit_rows

__all__ = [
    "class_pull",
    "log_partition_gradients",
    "log_partitions",
    "pair_loss",
    "pair_loss_gradients",
    "row_sum_gradients",
    "row_sums",
    "unit_row_gradients",
    "unit_rows",
]
