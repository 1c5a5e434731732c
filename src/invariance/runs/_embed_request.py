"""What embed and search are asked for, as far as it can be checked without torch."""

from pathlib import Path
from typing import Any

from ..data import require_data
from ..devices import check_workers
from ..folder import require_encoder
from ..plain_numbers import check_least, check_share


def check_request(
    run_or_encoder: Any,
    data: Any,
    *,
    batch_size: int,
    limit: int | None,
    workers: int | None,
    max_bad_fraction: float | int = 0.2,
    out: str | Path | None = None,
    shard: str | None = None,
) -> None:
    """Refuse what cannot work before time is spent on it, or a file is made."""
    check_least("batch_size", batch_size, 1)
    check_least("limit", limit, 1)
    check_workers(workers)
    check_share("max_bad_fraction", max_bad_fraction)
    if out is not None:
        from ._embedding_files import choose_writer

        choose_writer(out)
    if shard is not None:
        from ._embed_parts import Shard, check_part_name

        Shard.parse(shard)
        check_part_name(out or "")
    if isinstance(run_or_encoder, str | Path):
        require_encoder(run_or_encoder)
    if data is not None:  # what a run was trained on is found later
        require_data(data)
