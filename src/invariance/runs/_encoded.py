"""One pass over pictures through an encoder: features by the batch, in order.

The pictures that cannot be read are named and left out; too many of them are an error,
so that a disk that fails half-way does not look like a finished job.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..data import check_unreadable, one_pass
from ..encoders import Encoder
from ..errors import SettingError
from ._images import Images


@dataclass(frozen=True, eq=False)
class Encoded:
    """Features of the readable ones of the pictures from ``start`` up to ``stop``."""

    start: int
    stop: int
    rows: Int[Tensor, " b"]
    labels: Int[Tensor, " b"]
    features: Float[Tensor, "b e"]
    unreadable: dict[int, str] = field(default_factory=dict)


def encoded(
    encoder: Encoder,
    images: Images,
    *,
    start: int = 0,
    batch_size: int = 256,
    device: torch.device | str = "cpu",
    max_bad_fraction: float | int = 0.2,
) -> Iterator[Encoded]:
    """Features as float32 on the CPU, from picture ``start`` on."""
    if batch_size < 1:
        raise SettingError(f"batch_size is 1 or more: got {batch_size}.")
    encoder = encoder.to(device).eval()
    kind = next((p.dtype for p in encoder.parameters()), torch.float32)
    bad = dict(images.unreadable)
    n_known = len(bad)
    for batch in one_pass(
        images.items, start=start, batch_size=batch_size, workers=images.workers
    ):
        bad |= {images.names[i]: why for i, why in batch.unreadable.items()}
        n_seen = n_known + batch.stop - start
        check_unreadable(images.name, bad, n_seen, float(max_bad_fraction))
        features = torch.empty(0, encoder.width)
        try:
            if len(batch.rows):
                seen = batch.images.to(device).to(kind) / 255
                with torch.no_grad():  # not around the yield: that is the caller's
                    features = encoder(seen).float().cpu()
        except torch.OutOfMemoryError:
            raise SettingError(
                f"A batch of {batch_size} images does not fit into the memory of "
                f"{device}: use a smaller batch size."
            ) from None
        yield Encoded(
            batch.start,
            batch.stop,
            batch.rows,
            batch.labels,
            features,
            batch.unreadable,
        )
