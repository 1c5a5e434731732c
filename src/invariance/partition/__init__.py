"""The log-partition, on which every softmax objective is a few lines of algebra."""

from ._log_partition import (
    log_partition,
    log_partitions,
    row_sums,
    two_sided_log_partition,
)
from ._planner import BACKENDS
from ._ranks import from_first_process, gather_rows

__all__ = [
    "BACKENDS",
    "from_first_process",
    "gather_rows",
    "log_partition",
    "log_partitions",
    "row_sums",
    "two_sided_log_partition",
]
