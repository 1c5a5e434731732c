"""Readings that take more than one batch of rows: pools, gradients, probes."""

import copy
from collections.abc import Iterator
from functools import partial
from inspect import signature

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..diagnostics import (
    Reading,
    gradient_signal_to_noise,
    information_by_pool,
    linear_r2,
    sharpest_temperature,
)
from ..evaluation import linear_probe
from ..objectives import OBJECTIVES, Objective
from ..views import draw_parameters
from ._pool import Pool, Rows

BATCHES = (16, 64, 256)
MOST_BATCHES = 100  # whose gradients are compared: the noise is known to about 7 %
WIDEST = 4096  # a gradient has as many numbers as this has squared
FEWEST = 50  # rows that a probe is worth fitting on


def pool_readings(
    of: str,
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    temperature: float,
    batch_size: int,
) -> Iterator[Reading]:
    """Information as a batch shows it and as the whole pool does."""
    size = min(batch_size, len(u))
    pooled = information_by_pool(
        u, v, temperature=temperature, batch_size=size, factor=max(len(u) // size, 1)
    )
    yield Reading(
        "information",
        of,
        pooled.batch_nats,
        f"What one mini-batch shows at temperature {temperature:g}, on average over "
        f"{len(u) // size} of them; none shows more than "
        f"{pooled.batch_reachable:.2f}, nor, at any temperature, more than log "
        f"{size}.",
        unit="nats",
        ceiling=pooled.batch_ceiling,
        reachable=pooled.batch_reachable,
        batch_size=size,
    )
    yield Reading(
        "information",
        of,
        pooled.pool_nats,
        pooled.sentence,
        unit="nats",
        ceiling=pooled.pool_ceiling,
        reachable=pooled.pool_reachable,
        n_pool=pooled.n_pool,
    )
    if len(u) < 8:
        return
    half = len(u) // 2
    sharp = sharpest_temperature(u[:half], v[:half])
    best = information_by_pool(
        u[half:],
        v[half:],
        temperature=sharp,
        batch_size=min(size, len(u) - half),
        factor=max((len(u) - half) // size, 1),
    )
    yield Reading(
        "information, sharpest temperature",
        of,
        best.pool_nats,
        f"The same with {best.n_pool:,} candidates at temperature {sharp:g}, chosen "
        "on one half of the samples and read on the other.",
        unit="nats",
        ceiling=best.pool_ceiling,
        reachable=best.pool_reachable,
    )


def gradient_readings(
    of: str,
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    trained: Objective | None,
    temperature: float,
    batch_size: int,
    labels: Int[Tensor, " n"] | None,
) -> tuple[list[Reading], list[str]]:
    """Signal to noise of the gradient for each objective and batch size.

    Negatives are those of the batch, whatever the run's were. What cannot be read is
    said in notes.

    Args:
        of: "h" or "z".
        u: One view.
        v: The other view.
        trained: The run's own objective, read with its settings; others have the run's
            temperature, and otherwise their defaults.
        temperature: Of the run.
        batch_size: Of the run, read beside a few others.
        labels: Classes, if there are any.
    """
    if u.shape[1] > WIDEST:
        note = f"Rows of {u.shape[1]:,} numbers are too wide for gradients to be read."
        return [], [note]
    ready, notes = prepare_objectives(trained, temperature, u, labels)
    sizes = [size for size in sorted({*BATCHES, batch_size}) if len(u) >= 4 * size]
    readings = []
    for name, objective in ready.items():
        for size in sizes:  # of fewer than four batches, noise is not known
            value = gradient_signal_to_noise(
                u,
                v,
                partial(find_loss, objective),
                batch_size=size,
                max_batches=MOST_BATCHES,
                labels=labels if objective.takes == "labels" else None,
            )
            meaning = (
                f"With batches of {size}, {name}'s mean gradient is {value:.2f} times "
                "as long as the noise of one batch."
            )
            reading = Reading(
                "gradient signal to noise",
                of,
                value,
                meaning,
                objective=name,
                batch_size=size,
            )
            readings.append(reading)
    return readings, notes


def prepare_objectives(
    trained: Objective | None,
    temperature: float,
    like: Tensor,
    labels: Int[Tensor, " n"] | None,
) -> tuple[dict[str, Objective], list[str]]:
    """Every objective that needs nothing but rows and labels, and why others do not."""
    ready: dict[str, Objective] = {}
    notes = []
    kinds: dict[str, type[Objective]] = dict(OBJECTIVES)
    if trained is not None and type(trained) not in kinds.values():
        kinds[type(trained).__name__] = type(trained)
    for name, kind in kinds.items():
        given = signature(kind).parameters.values()
        if kind.takes == "labels" and labels is None:
            notes.append(f"The gradient of {name} is not read: there are no labels.")
        elif kind is type(trained):
            ready[name] = copy.deepcopy(trained).to(like.device)
        elif any(parameter.default is parameter.empty for parameter in given):
            why = (
                "it needs what the objective itself learns, which is not available here"
            )
            notes.append(f"The gradient of {name} is not read: {why}.")
        else:
            has_one = "temperature" in kind.defaults
            ready[name] = kind(temperature=temperature) if has_one else kind()
    if any(objective.takes == "targets" for objective in ready.values()):
        notes.append(
            "Gradients of byol and sim_siam are read without predictor and twin: each "
            "view predicts the other's projections directly."
        )
    return ready, notes


def find_loss(
    objective: Objective, u: Tensor, v: Tensor, labels: Tensor | None = None
) -> Tensor:
    """An objective's loss of two views, whatever it takes."""
    if labels is not None:
        return objective(torch.cat([u, v]), labels.repeat(2))
    return torch.stack([t.total for t in objective.terms_of_views([u, v])]).mean()


def augmentation_readings(rows: Rows, pool: Pool) -> Iterator[Reading]:
    """How much of each augmentation can be read off h and off z, and of the class."""
    h, z, labels = rows.h[0], None if rows.z is None else rows.z[0], rows.labels
    if len(h) < FEWEST:
        return
    parameters = draw_parameters(
        pool.parts.views,
        pool.sources[0].shape,
        samples=rows.samples,
        seed=pool.seed,
        epoch=pool.epoch,
    )
    kinds = {"h": h} if z is None else {"h": h, "z": z}
    if parameters:
        targets = torch.stack(list(parameters.values()), 1)
        scores = {of: linear_r2(x, targets) for of, x in kinds.items()}
        for i, name in enumerate(parameters):
            for of in kinds:
                value = scores[of][i]
                yield Reading(
                    "augmentation kept",
                    of,
                    value,
                    sentence(name, value, of),
                    ceiling=1.0,
                    augmentation=name,
                )
        mean = {of: sum(max(r, 0.0) for r in s) / len(s) for of, s in scores.items()}
        for of, value in mean.items():
            yield Reading(
                "augmentations kept, mean",
                of,
                value,
                describe_loss(mean, of),
                ceiling=1.0,
            )
    if labels is not None and len(labels.unique()) > 1:
        half = len(h) // 2
        for of, x in kinds.items():
            score = linear_probe(x[:half], labels[:half], x[half:], labels[half:])
            yield Reading(
                "class kept",
                of,
                score.value,
                f"A linear probe recovers the class of a view from {of} in "
                f"{100 * score.value:.0f} % of the samples (fitted on {half:,}).",
                ceiling=1.0,
            )


def sentence(name: str, value: float, of: str) -> str:
    """One augmentation's R² in words."""
    much = "nothing" if value < 0.05 else f"{100 * value:.0f} %"
    return f"A linear map recovers {much} of the variance of {name} from {of}."


def describe_loss(mean: dict[str, float], of: str) -> str:
    """What the head does to the augmentations, in words."""
    if "z" not in mean:
        return (
            f"On average {100 * mean[of]:.0f} % of an augmentation can be read from "
            f"{of}."
        )
    lost = mean["h"] - mean["z"]
    what = (
        f"the head discards {100 * lost / max(mean['h'], 1e-9):.0f} % of that"
        if lost > 0.01
        else "the head discards none of that"
    )
    return (
        f"On average {100 * mean['h']:.0f} % of an augmentation can be read from h "
        f"and {100 * mean['z']:.0f} % from z: {what}."
    )
