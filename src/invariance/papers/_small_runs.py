"""Small trainings on generated shapes, for claims about what training gives.

Networks, images and data are far smaller than the papers': what is compared is settings
with one another, never accuracies with published ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from .. import data, load
from ..evaluation import encode_images, linear_probe
from ..runs import open_run, untrained_encoder
from ._cell_training import TrainedRun, train_in
from ._claim import Cell, Size, grid

SAMPLES: dict[Size, int] = {"tiny": 64, "quick": 640, "full": 6000}
EPOCHS: dict[Size, int] = {"tiny": 1, "quick": 6, "full": 20}
SIDE = 16  # of the images, in pixels
PROBED = 1000  # images that a probe is fitted on, at most, and as many to test it
SMALLER = (
    "Generated shapes of 16 pixels and a tiny convolutional network stand for the "
    "papers' images and ResNets."
)


def list_sizes(
    *,
    seeds: int = 3,
    tiny: Mapping[str, Sequence[Any]] | None = None,
    **varied: Iterable[Any],
) -> Mapping[Size, Sequence[Mapping[str, Any]]]:
    """Cells that vary these settings, at every size of data.

    Args:
        seeds: Of the quick size.
        tiny: The values that the tiny size is content with, where not all.
        varied: The values of each setting.
    """
    values = {name: tuple(each) for name, each in varied.items()}
    few = values | dict(tiny or {})
    return {
        size: grid(
            **(few if size == "tiny" else values),
            samples=(SAMPLES[size],),
            epochs=(EPOCHS[size],),
            seed=range({"tiny": 1, "quick": seeds, "full": 5}[size]),
        )
        for size in SAMPLES
    }


def train_small(cell: Cell, **settings: Any) -> TrainedRun:
    """As many samples and epochs as the cell says."""
    given = {"batch_size": 64, **settings}
    given["batch_size"] = min(given["batch_size"], cell["samples"] // 2)
    return train_in(
        cell,
        protocols=(),
        limit=cell["samples"],
        epochs=cell["epochs"],
        image_size=SIDE,
        **given,
    )


def read_accuracy(cell: Cell, run: TrainedRun, *, untrained: bool = False) -> float:
    """What a linear probe reads off the features of test images, in percent.

    Args:
        cell: Says how many images the probe may have.
        run: Whose encoder.
        untrained: Ask the same encoder as it was before training.
    """
    n = min(PROBED, 2 * cell["samples"])
    if untrained:
        encoder, why, _ = untrained_encoder(open_run(run.folder))
        assert encoder is not None, why
    else:
        encoder = load(run.folder)
    fit, test = (
        data.load("shapes", split=split, n=n, image_size=SIDE)
        for split in ("train", "test")
    )
    rows = [encode_images(encoder, part) for part in (fit, test)]
    assert fit.labels is not None and test.labels is not None
    score = linear_probe(rows[0], fit.labels, rows[1], test.labels, l2=0.001)
    return 100 * score.value


def read_last(run: TrainedRun, name: str) -> float:
    """The mean of a reading over the last epoch."""
    last = run.readings[-1]["epoch"] - 1
    return fmean(r[name] for r in run.readings if name in r and r["epoch"] > last)
