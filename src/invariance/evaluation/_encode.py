r"""Samples in, features out: the one place where an encoder looks at samples.

$$h_i = f(\mathrm{prepare}(x_i)),\qquad i = 1, \dots, n$$

The encoder works in evaluation mode, without gradients and in its own precision; what
comes back is float32 on the CPU. An encoder may round differently in batches of another
size, so features are the same bit for bit only where the batches are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from ..data import Image, Kind, Source
from ..processes import ALONE, Processes
from ..views import ViewSet
from ._images import Images, as_images

BATCH = 500  # samples at once, wherever nobody asks for another number
IMAGE = Image(())  # of any shape


@torch.no_grad()
def encode_batch(
    encoder: nn.Module | None,
    samples: Shaped[Tensor, "b ..."],
    *,
    kind: Kind = IMAGE,
    device: torch.device | str | None = None,
) -> Float[Tensor, "b e"]:
    """Features of one batch.

    Args:
        encoder: any module that gives (b, e) rows, on ``device`` already. None stands
            for the kind's plain features: of images, the pixels themselves.
        samples: as the source hands them over, or as the encoder takes them.
        kind: what a sample is.
        device: where the encoder is; None leaves the samples where they are.

    >>> encode_batch(None, torch.full((2, 1, 1, 2), 255, dtype=torch.uint8))
    tensor([[1., 1.],
            [1., 1.]])
    """
    samples = samples if device is None else samples.to(device)
    if encoder is None:
        return kind.plain(samples).float().cpu()
    encoder.eval()
    first = next(encoder.parameters(), None)
    dtype = torch.float32 if first is None else first.dtype
    return encoder(kind.prepare(samples, dtype)).float().cpu()


def encode_images(
    encoder: nn.Module | None,
    images: Images | Tensor,
    rows: Int[Tensor, " n"] | None = None,
    *,
    batch_size: int = BATCH,
    device: torch.device | str = "cpu",
    progress: Callable[[int], object] | None = None,
    processes: Processes = ALONE,
) -> Float[Tensor, "n e"]:
    """Features of these rows, in their order.

    Args:
        encoder: any module that gives (b, e) rows, on ``device`` already. None stands
            for the kind's plain features.
        images: a tensor of images, or a source of any samples as
            ``invariance.data.load`` gives it.
        rows: the numbers of the samples; all of them by default.
        batch_size: samples at once.
        device: where the encoder is.
        progress: called after each batch with the number of samples done so far.
        processes: those that call this together, each of which encodes a share of the
            batches; all of them get all rows.

    >>> images = torch.zeros(3, 1, 4, 4, dtype=torch.uint8)
    >>> encode_images(nn.Flatten(), images, torch.tensor([2, 0])).shape
    torch.Size([2, 16])
    """
    source = as_images(images)
    rows = torch.arange(len(source)) if rows is None else rows.cpu()
    batches = rows.split(batch_size)
    blocks: list[Tensor] = []
    done = 0
    mine = batches[processes.share(len(batches))]
    for batch in source.batches(mine, device=device):
        blocks.append(encode_batch(encoder, batch, kind=source.kind))
        done += len(batch)
        if progress is not None:
            progress(done)
    sizes = [sum(map(len, batches[s])) for s in processes.shares(len(batches))]
    return processes.collect_rows(torch.cat(blocks) if blocks else None, sizes)


@dataclass(frozen=True)
class OtherSide:
    """How the second side of pairs is seen and encoded."""

    encoder: nn.Module
    head: nn.Module | None
    views: ViewSet
    seed: int = 0


@torch.no_grad()
def encode_views(
    encoder: nn.Module,
    head: nn.Module | None,
    images: Source,
    rows: Int[Tensor, " n"],
    views: ViewSet,
    *,
    seed: int = 0,
    epoch: int = 0,
    device: torch.device | str = "cpu",
    other: OtherSide | None = None,
) -> tuple[Float[Tensor, "_ n e"], Float[Tensor, "_ n d"] | None]:
    """Features h, and projections z where there is a head, of the first two views.

    Where there is one view, no two projections are to be compared: z is None. Two views
    that are the same, as those that dropout alone tells apart, come back as one: it is
    off here, and a row beside itself would look like perfect learning.

    Of pairs it is the first view of each side. Where those have encoders of their own,
    h is the first side's alone: features of two encoders have nothing to do with each
    other.

    Args:
        encoder: samples as it takes them in, features out, on ``device`` already.
        head: features in, projections out; None leaves z out.
        images: a source of samples, as ``invariance.data.load`` gives it.
        rows: the numbers of the samples.
        views: how they are seen; ``seed``, ``epoch`` and row number key the draws.
        seed: of the draws.
        epoch: of the draws.
        device: where encoder and head are.
        other: the second side of pairs; None for samples by themselves.
    """
    first = OtherSide(encoder, head, views, seed)
    sides = [first] if other is None else [first, other]
    for side in sides:
        side.encoder.eval()
        if side.head is not None:
            side.head.eval()
    shown = 2 if other is None else 1
    same = other is None
    h: list[Tensor] = []
    z: list[Tensor] = []
    parts = rows.split(BATCH)
    read: Iterable[Sequence[Tensor]] = (
        ([batch] for batch in images.batches(parts, device=device))
        if other is None
        else images.pairs(parts, device=device)
    )
    for part, batches in zip(parts, read, strict=True):
        features: list[Tensor] = []
        projections: list[Tensor] = []
        for side, batch in zip(sides, batches, strict=True):
            pipelines = list(side.views.pipelines[:shown])
            see = ViewSet(pipelines, prepare=side.views.prepare)
            views_seen = list(see(batch, samples=part, seed=side.seed, epoch=epoch))
            same = same and torch.equal(views_seen[0], views_seen[-1])
            for view in views_seen:
                rows_of_view = side.encoder(view)
                if side.encoder is encoder:
                    features.append(rows_of_view.float().cpu())
                if side.head is not None:
                    projections.append(side.head(rows_of_view).float().cpu())
        h.append(torch.stack(features))
        if len(projections) > 1:
            z.append(torch.stack(projections))
    n_views = 1 if same else None
    return torch.cat(h, 1)[:n_views], torch.cat(z, 1)[:n_views] if z else None
