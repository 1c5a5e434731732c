r"""Small trainings on generated codes, for claims about what training gives.

A sample is a code: 8 numbers of content around one of two centers of its class, and 24
numbers that do not matter. It is seen through a fixed random layer that mixes them all.
A view keeps the content up to a little noise and draws the rest anew,

$$c' = c + 0.3\,\varepsilon,\qquad s' \sim N(0, 1.4^2),\qquad
x = \mathrm{leaky}([c', s']\,A)\,B,$$

so two views share the content and nothing else, about 7 nats: more than the logarithm
of any batch here. Before training what does not matter hides the classes from nearest
neighbors; a small network learns in seconds to look through it. Networks and data are
far smaller than the papers': settings are compared with one another, never accuracies
with published ones.

What needs augmentations of images is trained on generated shapes instead, for much
fewer steps (``train_on_shapes``).
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from .. import load
from ..data import Samples, Vector
from ..encoders import build_encoder
from ..evaluation import knn
from ..views import Draws, ViewSet
from ._cell_training import TrainedRun, train_in
from ._claim import Cell, Cells, Size, Values, plan

CLASSES, CONTENT, REST = 10, 8, 24
WIDTH = CONTENT + REST
ENCODER = "mlp"
SAMPLES: dict[Size, int] = {"tiny": 64, "quick": 2048, "full": 8192}
EPOCHS: dict[Size, int] = {"tiny": 1, "quick": 10, "full": 30}
TESTED = 1000  # codes that vote, and as many to test
SMALLER = (
    "Generated codes and a small network stand for the papers' images and ResNets. A "
    "code has numbers of content and numbers that do not matter, seen through a random "
    "layer that mixes them; each view draws anew those that do not matter. Accuracy is "
    "that of nearest neighbors."
)
SHAPES_SAMPLES: dict[Size, int] = {"tiny": 64, "quick": 640, "full": 6000}
SHAPES_EPOCHS: dict[Size, int] = {"tiny": 1, "quick": 6, "full": 20}
SIDE = 16  # of shapes, in pixels
SHAPES = (
    f"Generated shapes of {SIDE} pixels and a tiny convolutional network stand for the "
    "papers' images and ResNets."
)


def _draw_world() -> tuple[Tensor, Tensor, Tensor]:
    """The centers of the classes and the layer that codes are seen through."""
    generator = torch.Generator().manual_seed(123)
    layers = torch.randn(2, WIDTH, WIDTH, generator=generator)
    first, second = (torch.linalg.qr(layer)[0] for layer in layers)
    centers = torch.randn(2 * CLASSES, CONTENT, generator=generator)
    length = 0.8 * CONTENT**0.5
    return length * nn.functional.normalize(centers, dim=1), first, second


CENTERS, MIX, TURN = _draw_world()


def draw_codes(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """N codes and their classes."""
    which = torch.randint(len(CENTERS), (n,), generator=generator)
    content = CENTERS[which] + 0.5 * torch.randn(n, CONTENT, generator=generator)
    rest = 1.4 * torch.randn(n, REST, generator=generator)
    return torch.cat([content, rest], 1), which % CLASSES


def see(codes: Tensor) -> Tensor:
    """What an encoder is given."""
    return nn.functional.leaky_relu(codes @ MIX, 0.2) @ TURN


def make_views(strength: float = 1.0) -> ViewSet:
    """Two views; at a strength below 1 some of what does not matter stays."""

    def view(codes: Tensor, draws: Draws) -> Tensor:
        noise = draws.normal(WIDTH).to(codes)
        content, rest = codes.split((CONTENT, REST), 1)
        anew = min(strength, 1.0)
        content = content + 0.3 * strength * noise[:, :CONTENT]
        rest = (1 - anew**2) ** 0.5 * rest + anew * 1.4 * noise[:, CONTENT:]
        return see(torch.cat([content, rest], 1))

    return ViewSet([[view], [view]])


def see_pairs(cell: Cell, n: int) -> list[Tensor]:
    """Two views each of n codes that are never trained on."""
    codes, _ = draw_codes(n, cell.generator(3))
    return make_views()(codes, samples=torch.arange(n), seed=cell.seed, epoch=0)


def list_sizes(
    *,
    seeds: int = 5,
    tiny: Values | None = None,
    samples: Mapping[Size, int] = SAMPLES,
    epochs: Mapping[Size, int] = EPOCHS,
    **varied: Any,
) -> Mapping[Size, Cells]:
    """Cells that vary these settings, at every size of data.

    Args:
        seeds: Of the quick size.
        tiny: The values that the tiny size is content with, where not all.
        samples: By size.
        epochs: By size.
        varied: The values of each setting.
    """
    n_seeds: dict[Size, int] = {"tiny": 1, "quick": seeds, "full": 5}
    by_size: dict[str, Any] = {
        size: {"samples": samples[size], "epochs": epochs[size], "seeds": n}
        for size, n in n_seeds.items()
    }
    by_size["tiny"] |= tiny or {}
    return plan(**by_size, **varied)


def train_small(
    cell: Cell,
    *,
    strength: float = 1.0,
    each_epoch: Callable[..., Any] | None = None,
    **settings: Any,
) -> TrainedRun:
    """Train on codes: as many, and for as many epochs, as the cell says."""
    given = {"batch_size": 64, "encoder": ENCODER, **settings}
    given["batch_size"] = min(given["batch_size"], cell["samples"] // 2)
    codes, _ = draw_codes(cell["samples"], cell.generator(1))
    return train_in(
        cell,
        protocols=(),
        objects={
            "data": Samples(codes, Vector((WIDTH,)), name="codes"),
            "views": make_views(strength),
        },
        each_epoch=each_epoch,
        epochs=cell["epochs"],
        **given,
    )


def train_on_shapes(
    cell: Cell, *, protocols: Sequence[str] = (), **settings: Any
) -> TrainedRun:
    """Train on images, where a claim is about augmentations of images."""
    return train_in(
        cell,
        protocols=protocols,
        limit=cell["samples"],
        epochs=cell["epochs"],
        batch_size=min(64, cell["samples"] // 2),
        image_size=SIDE,
        **settings,
    )


def encode_codes(
    cell: Cell, encoder: nn.Module
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Features and classes of codes that vote, and of codes to test."""
    encoder.eval()
    parts = []
    for stream in (2, 4):
        codes, labels = draw_codes(TESTED, cell.generator(stream))
        with torch.no_grad():
            parts.append((encoder(see(codes)), labels))
    return parts[0], parts[1]


def score(cell: Cell, encoder: nn.Module) -> float:
    """How often nearest neighbors name the class of a test code, in percent."""
    return 100 * knn(*(t for part in encode_codes(cell, encoder) for t in part)).value


def read_accuracy(cell: Cell, run: TrainedRun) -> float:
    """The score of a run's features."""
    return score(cell, load(run.folder))


def read_untrained(cell: Cell) -> float:
    """The score of such an encoder before training."""
    return score(cell, build_encoder(ENCODER, kind=Vector((WIDTH,))))


def read_last(run: TrainedRun, name: str) -> float:
    """The mean of a reading over the last epoch."""
    last = run.readings[-1]["epoch"] - 1
    return fmean(r[name] for r in run.readings if name in r and r["epoch"] > last)
