"""The log-partition, on which every softmax objective is a few lines of algebra."""

from ._dense import FUNCTIONS, SAME_POINT, softplus
from ._effective_share import effective_share, shares_in_batch
from ._partition import (
    class_pull,
    fused_loss,
    fused_unit_rows,
    log_partition,
    log_partitions,
    row_sums,
    two_sided_log_partition,
)
from ._plan import BACKENDS, PRECISIONS, Plan, explain, suits_fused_loss
from ._processes import (
    Share,
    add_up,
    from_first_process,
    gather,
    gather_last,
    gather_rows,
    has_company,
    number_rows,
    share_rows,
    split_views,
    take_whole_gradient,
)

__all__ = [
    "BACKENDS",
    "FUNCTIONS",
    "PRECISIONS",
    "SAME_POINT",
    "Plan",
    "Share",
    "add_up",
    "class_pull",
    "effective_share",
    "explain",
    "from_first_process",
    "fused_loss",
    "fused_unit_rows",
    "gather",
    "gather_last",
    "gather_rows",
    "has_company",
    "log_partition",
    "log_partitions",
    "number_rows",
    "row_sums",
    "share_rows",
    "shares_in_batch",
    "softplus",
    "split_views",
    "suits_fused_loss",
    "take_whole_gradient",
    "two_sided_log_partition",
]
