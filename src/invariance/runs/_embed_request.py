"""What embed and search are asked for, as far as it can be checked without torch."""

from pathlib import Path
from typing import Any

from ..data import require_data
from ..devices import check_workers
from ..folder import require_encoder
from ..plain_numbers import check_least


def check_request(
    run_or_encoder: Any,
    data: Any,
    *,
    batch_size: int,
    limit: int | None,
    workers: int | None,
) -> None:
    """Refuse what cannot work before time is spent on it, or a file is made."""
    check_least("batch_size", batch_size, 1)
    check_least("limit", limit, 1)
    check_workers(workers)
    if isinstance(run_or_encoder, str | Path):
        require_encoder(Path(run_or_encoder).expanduser())
    require_data(data)
