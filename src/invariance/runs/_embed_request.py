"""What embed and search are asked for, checked as far as that needs no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data import require_data
from ..devices import check_workers
from ..folder import require_encoder
from ..plain_numbers import check_least, check_share


@dataclass(frozen=True, eq=False)
class Request:
    """An encoder and the samples that it is to see; what cannot work is refused.

    Attributes:
        run_or_encoder: a run, its folder, an encoder file, or an encoder.
        data: a folder, file, data set's name, array or Dataset; None is found later, as
            what the run was trained on.
        split: "train", "test" or "all".
        limit: at most this many samples, evenly spread.
        batch_size: samples encoded at once.
        workers: decoding processes; None is as many as cores for image files.
        data_root: where named sets are kept.
        max_bad_fraction: a larger share of unreadable samples is an error.
    """

    run_or_encoder: Any
    data: Any
    split: str = "all"
    limit: int | None = None
    batch_size: int = 256
    workers: int | None = None
    data_root: str | Path | None = None
    max_bad_fraction: float | int = 0.2

    def __post_init__(self) -> None:
        check_least("batch_size", self.batch_size, 1)
        check_least("limit", self.limit, 1)
        check_workers(self.workers)
        check_share("max_bad_fraction", self.max_bad_fraction)
        if isinstance(self.run_or_encoder, str | Path):
            require_encoder(self.run_or_encoder)
        if self.data is not None:
            require_data(self.data)


def check_request(
    run_or_encoder: Any,
    data: Any,
    *,
    out: str | Path | None = None,
    shard: str | None = None,
    **how: Any,
) -> Request:
    """The request, with its file; what cannot work is refused before time is spent.

    Args:
        run_or_encoder: as in ``Request``.
        data: as in ``Request``.
        out: the file to write, if one is written.
        shard: the share of the samples that it is to hold.
        **how: the other parts of a ``Request``.
    """
    request = Request(run_or_encoder, data, **how)
    if out is not None:
        from ._embedding_files import choose_writer

        choose_writer(out)
    if shard is not None:
        from ._embed_parts import Shard, check_part_name

        Shard.parse(shard)
        check_part_name(out or "")
    return request
