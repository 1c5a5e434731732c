"""The log-partition, on which every softmax objective is a few lines of algebra."""

from ._class_pull import class_pull
from ._elementwise import FUNCTIONS, SAME_POINT
from ._layout import ZERO_LENGTH
from ._log_partition import (
    log_partition,
    log_partitions,
    row_sums,
    two_sided_log_partition,
)
from ._pair_loss import fused_loss, suits_fused_loss
from ._plan import BACKENDS, PRECISIONS, Plan, explain
from ._ranks import from_first_process, gather_rows
from ._unit_rows import fused_unit_rows

__all__ = [
    "BACKENDS",
    "FUNCTIONS",
    "PRECISIONS",
    "SAME_POINT",
    "ZERO_LENGTH",
    "Plan",
    "class_pull",
    "explain",
    "from_first_process",
    "fused_loss",
    "fused_unit_rows",
    "gather_rows",
    "log_partition",
    "log_partitions",
    "row_sums",
    "suits_fused_loss",
    "two_sided_log_partition",
]
