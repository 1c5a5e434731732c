"""The one call: two variables in, an ``Estimate`` out."""

from dataclasses import fields
from typing import Any

import torch

from ..critics import CRITICS
from ..errors import SettingError, choose, unknown
from ._catalogue import ESTIMATORS
from ._determined import settled
from ._estimate import Estimate
from ._fit import Progress
from ._options import Training
from ._request import Request
from ._samples import Rows, read_samples


def estimate_mi(
    x: Rows,
    y: Rows,
    *,
    estimator: str = "info_nce",
    critic: str = "separable",
    seed: int = 0,
    drop_missing: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
    **training: Any,
) -> Estimate:
    """How much two variables share, in nats, and what that number may claim.

    Args:
        x: One row a sample (a tensor or array), or one number a sample.
        y: The same; row i belongs to row i of x. Integers that repeat are labels.
        estimator: A name of ``ESTIMATORS``; "auto" picks by the data and says why.
        critic: A name of ``CRITICS``, for estimators that train one.
        seed: Of the split, the weights and the batches; the same seed repeats exactly.
        drop_missing: Leave rows with NaN or infinite numbers out instead of refusing.
        device: Where networks are trained.
        progress: Called with every ``Checkpoint`` of the training.
        **training: Settings of ``Training``, such as batch_size=512.

    Columns are made normal one by one first (an increasing map each, which changes no
    information; margins="standard" or "raw" turn that off). Critics train on 60 % of
    the rows, stop early by 10 %, and are read on rows that neither touched.

    >>> import torch
    >>> from invariance.data import correlated_gaussian
    >>> dice = torch.Generator().manual_seed(0)
    >>> x, y = correlated_gaussian(2, nats=1.0).sample(2000, generator=dice)
    >>> print(estimate_mi(x, y, estimator="gaussian"))
    x and y share about 1.01 nats (1.46 bits) (gaussian, an estimate; 95 % interval \
0.96 to 1.06).
    """
    chosen = choose(ESTIMATORS, estimator, "estimator")
    choose(CRITICS, critic, "critic")
    known = {f.name for f in fields(Training)}
    if wrong := [name for name in training if name not in known]:
        raise SettingError(unknown("setting", wrong[0], known))
    options = Training(**training)
    _check_device(device)
    samples = read_samples(x, y, drop_missing=drop_missing)
    if answer := settled(samples, estimator):
        return answer
    return chosen.run(
        Request(
            samples,
            critic=critic,
            training=options,
            seed=seed,
            device=device,
            progress=progress,
        )
    )


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingError(
            f"No networks can be trained on device {device!r} here: use 'cpu'"
            + (" or 'cuda'." if torch.cuda.is_available() else ".")
        ) from error
