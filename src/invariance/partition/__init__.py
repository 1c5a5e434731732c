"""The log-partition, on which every softmax objective is a few lines of algebra."""

from ._effective_share import effective_share, shares_in_batch
from ._functions import FUNCTIONS, SAME_POINT
from ._partition import (
    class_pull,
    fused_loss,
    fused_unit_rows,
    log_partition,
    log_partitions,
    row_sums,
    suits_fused_loss,
    two_sided_log_partition,
)
from ._plan import BACKENDS, PRECISIONS, Plan, explain
from ._processes import from_first_process, gather, gather_rows

__all__ = [
    "BACKENDS",
    "FUNCTIONS",
    "PRECISIONS",
    "SAME_POINT",
    "Plan",
    "class_pull",
    "effective_share",
    "explain",
    "from_first_process",
    "fused_loss",
    "fused_unit_rows",
    "gather",
    "gather_rows",
    "log_partition",
    "log_partitions",
    "row_sums",
    "shares_in_batch",
    "suits_fused_loss",
    "two_sided_log_partition",
]
