"""Images in, embeddings out: of the images themselves, or of two views of them."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..data import ImageSource
from ..evaluation import raw_pixels
from ..views import ViewSet

CHUNK = 500


def rows_of(source: ImageSource, most: int | None) -> Tensor:
    """At most so many row numbers, evenly spread."""
    n = len(source)
    return torch.linspace(0, n - 1, n if most is None else min(n, most)).round().long()


@torch.no_grad()
def features(
    source: ImageSource, rows: Tensor, encoder: nn.Module | None, device: Any
) -> Float[Tensor, "n e"]:
    """Features of these rows, on the CPU; pixels where there is no encoder."""
    if encoder is not None:
        encoder.eval()
    found = []
    for images in source.batches(rows.split(CHUNK), device=device):
        if encoder is None:
            found.append(raw_pixels(images).float().cpu())
        else:
            found.append(encoder(images.float() / 255).float().cpu())
    return torch.cat(found)


@torch.no_grad()
def view_features(
    source: ImageSource,
    rows: Tensor,
    views: ViewSet,
    encoder: nn.Module,
    head: nn.Module | None,
    device: Any,
    *,
    seed: int = 0,
    epoch: int = 0,
) -> tuple[Float[Tensor, "2 n e"], Float[Tensor, "2 n d"] | None]:
    """Features h, and projections z where there is a head, of the first two views."""
    pair = ViewSet(list(views.pipelines[:2]))
    encoder.eval()
    if head is not None:
        head.eval()
    h: list[Tensor] = []
    z: list[Tensor] = []
    parts = rows.split(CHUNK)
    for part, images in zip(parts, source.batches(parts, device=device), strict=True):
        drawn = pair(images, samples=part, seed=seed, epoch=epoch)
        found = [encoder(view) for view in drawn]
        h.append(torch.stack([rows.float().cpu() for rows in found]))
        if head is not None:
            z.append(torch.stack([head(rows).float().cpu() for rows in found]))
    return torch.cat(h, 1), torch.cat(z, 1) if head is not None else None
