"""Rows divided into training, validation and test, with columns on a common footing."""

import torch
from torch import Tensor

from ..errors import DataError
from ._fit import Parts
from ._normal_scores import fit_normal_scores
from ._options import Training
from ._samples import Samples

VALIDATION, TEST = 0.1, 0.3
LEAST = 100
MOST_VALIDATION = 2048
MOST_VALUES = 1024


def split(
    samples: Samples,
    options: Training,
    generator: torch.Generator,
    name: str,
    *,
    y_as_labels: bool = False,
) -> Parts:
    """Shuffled parts with mapped columns; few values become one column each.

    The maps are increasing in every column and learned from training rows only, so the
    information is the same before and after, and the test rows stay unseen.
    """
    n = len(samples)
    if n < LEAST:
        raise DataError(
            f"{name} trains a network and needs at least {LEAST} rows to train, stop "
            f"and be believed on, got {n}: use estimator='gaussian' or 'ksg'."
        )
    order = torch.randperm(n, generator=generator)
    n_test = min(int(TEST * n), options.max_candidates)
    n_validation = min(int(VALIDATION * n), MOST_VALIDATION, options.max_candidates)
    test, validation, train = order.split(
        [n_test, n_validation, n - n_test - n_validation]
    )
    x, y = (
        _mapped(z, label, train, options.margins)
        for z, label in ((samples.x, samples.x_label), (samples.y, samples.y_label))
    )
    if y_as_labels and samples.y_label is not None:
        y = samples.y_label[:, None].float()
    return Parts(*((x[rows], y[rows]) for rows in (train, validation, test)))


def _mapped(z: Tensor, label: Tensor | None, train: Tensor, margins: str) -> Tensor:
    if label is not None and int(label.max()) < MOST_VALUES:
        return torch.nn.functional.one_hot(label).float()
    if margins == "raw":
        return z.float()
    mean, spread = z[train].mean(0), z[train].std(0)
    z = (z - mean) / torch.where(spread > 0, spread, 1.0)
    return fit_normal_scores(z[train])(z).float() if margins == "normal" else z.float()
