"""``propose_batch_size``: from a trained run's gradient and what steps cost here.

The noise of a gradient grows while a run learns: signal and noise were equally long at
34 samples after 3 epochs of ``shapes``, at 211 after 6 and at 904 after 12. A fresh
network, all that a dry run has, says nothing about that, so a dry run proposes nothing.
This takes a run that has learned; the epochs that it kept (--keep-every) show how the
proposal moves.
"""

import contextlib
import dataclasses
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from ..devices import choose_device
from ..diagnostics import (
    BatchProposal,
    effective_sample_size,
    gradient_signal_to_noise,
    weigh_batch_sizes,
)
from ..errors import DataError
from ..progress import tell
from ..training import (
    DryRun,
    Machine,
    Run,
    find_kept,
    read_kept,
    train,
)
from ._deep_readings import MOST_BATCHES, find_loss
from ._open import OpenRun, open_run
from ._pool import open_pool


def propose_batch_size(
    run: str | Path | Run,
    *,
    data: Any = None,
    epoch: int | None = None,
    sizes: Sequence[int] | None = None,
    network: nn.Module | None = None,
    device: str = "auto",
    quiet: bool = True,
) -> BatchProposal:
    """The batch size with which a run like this one would take least time, here.

    Args:
        run: A run folder, or what ``train`` returned.
        data: What it was trained on, where that was an object.
        epoch: As the learner was after an epoch that the run kept; None is the last.
        sizes: Batch sizes whose steps are timed; None is half and twice the run's.
        network: The module itself, when the run was trained on one of your own.
        device: "auto", "cpu", "cuda".
        quiet: Say nothing while it works; otherwise a line about each part.
    """
    opened = open_run(run, network=network)
    place = choose_device(device, auto=("cuda",))
    pool = open_pool(opened, data, place)
    size, learner, encoder = pool.batch_size, pool.parts.learner, opened.encoder
    if learner is None:
        raise DataError(f"There is no gradient to read. {pool.parts.why}")
    if epoch is not None:
        path = find_kept(opened.folder, epoch)
        learner.load_state_dict(read_kept(path, map_location=place)["learner"])
        encoder = learner.encoder
    tell(f"{opened.name}: noise of the gradient", quiet=quiet)
    rows = pool.encode(encoder)
    pair, objective = rows.z, pool.parts.objective
    if objective is None or pair is None or len(pair) < 2 or pair.shape[1] < 4 * size:
        raise DataError(
            f"The noise of a gradient takes two views and four batches of {size}, "
            f"but there are {rows.h.shape[1]:,} samples in {len(rows.h)}: use more "
            "data, or a run of smaller batches."
        )
    u, v = pair
    labeled = objective.takes == "labels"
    signal = gradient_signal_to_noise(
        u,
        v,
        partial(find_loss, objective),
        batch_size=size,
        max_batches=MOST_BATCHES,
        labels=rows.labels if labeled else None,
    )
    ess = None
    if objective.negatives is not None and not labeled:
        how: Any = {"negatives": objective.negatives}
        ess = effective_sample_size(u, v, temperature=pool.parts.temperature, **how)
    n_train = int(opened.images.get("n_train", pair.shape[1]))
    seconds = {}
    for b in sizes or (max(size // 2, 2), min(2 * size, n_train)):
        tell(f"{opened.name}: steps of {b} samples", quiet=quiet)
        seconds[b] = time_step(opened, b, device, data, network)
    noise = size / signal**2 if signal > 0 else float("inf")
    return weigh_batch_sizes(seconds, noise_batch=noise, ess=ess, most=n_train)


def time_step(
    run: OpenRun, batch_size: int, device: str, data: Any, network: nn.Module | None
) -> float:
    """Seconds of a step of so many samples, by a dry run that nobody sees."""
    settings = dataclasses.replace(
        run.settings,
        batch_size=batch_size,
        micro_batch=None,
        data=run.data,
        start_from=None,
        pretrained=False,
        dry_run=True,
        quiet=True,
        json=False,
        machine=Machine(device=device, devices=1, nodes=1),  # type: ignore[arg-type]
    )
    with contextlib.redirect_stdout(io.StringIO()):
        given = data if run.from_python else None
        tried = train(settings, data=given, encoder=network)
    assert isinstance(tried, DryRun)
    return tried.seconds_per_step
