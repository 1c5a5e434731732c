"""``diagnose``: a run in, every reading of its embeddings out, each with a sentence.

All but the information at a hundred batches are read from images that were never
trained on; where there are too few of those for the pool, training images fill it up,
and a note says so.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..data import ImageSource
from ..diagnostics import Diagnosis, Reading, diagnosis
from ..errors import DataError, SettingError
from ..training import Run
from ..training._checkpoint import write_whole
from ..training._features import rows_of, view_features
from ..training._readings import UNTEMPERED
from ._evaluate import choose_device
from ._opened import Opened, opened, part_of
from ._readings import augmentation_readings, gradient_readings, pool_readings
from ._rebuilt import Rebuilt, rebuilt

NAME = "diagnostics.json"
FACTOR = 100
DIAGNOSED = 2000
PROBED = 4000
Say = Callable[[str], None]


def diagnose(
    run: str | Path | Run,
    *,
    data: Any = None,
    batch_size: int | None = None,
    pool: int | None = None,
    network: nn.Module | None = None,
    root: str | None = None,
    device: str = "auto",
    say: Say = lambda _: None,
) -> Diagnosis:
    """Read what a run's encoder and head make of views, and write diagnostics.json.

    Args:
        run: A run folder, or what ``train`` returned.
        data: A name, path, array or Dataset to look at; None is the run's own. Labels
            are not needed.
        batch_size: Whose mini-batch estimates are compared; None is the run's.
        pool: Images of the large pool; None is a hundred batches, or all there are.
        network: The module itself, when the run was trained on one of your own.
        root: Where named data sets are kept; None is where the run found them.
        device: "auto", "cpu", "cuda".
        say: Called with a line about each part as it begins.
    """
    found = opened(run, network=network)
    place = choose_device(device)
    size = found.settings.batch_size if batch_size is None else batch_size
    n_pool = FACTOR * size if pool is None else pool
    if size < 2 or n_pool < 2:
        raise SettingError(
            f"batch_size and pool are at least 2: got {size} and {n_pool}."
        )
    sources, notes = pool_of(found, data, n_pool, place, root)
    parts = rebuilt(found, sources[0], data, place)
    say(f"{found.name}: embedding views of {sum(map(len, sources)):,} images")
    h, z = embedded(found, parts, sources, n_pool, place)
    held = min(len(sources[0]), h.shape[1])
    labels = sources[0].labels
    read = min(held, DIAGNOSED)
    temperature = temperature_of(parts)
    say(f"{found.name}: alignment, uniformity, spectrum")
    result = diagnosis(
        h[:, :read],
        None if z is None else z[:, :read],
        labels=None if labels is None else labels.cpu()[:read],
        temperature=temperature,
    )
    rows, of = (h, "h") if z is None else (z, "z")
    say(f"{found.name}: information at {size} and {h.shape[1]:,} candidates")
    more = list(pool_readings(of, rows[0], rows[1], temperature, size))
    say(f"{found.name}: gradients, objective by objective")
    more += gradient_readings(of, rows[0], rows[1], temperature, size)
    say(f"{found.name}: what h and z keep of the views")
    few = min(held, PROBED)
    kept = None if labels is None else labels.cpu()[:few]
    drawn = parts.views, sources[0].shape, torch.arange(few), *keys(found)
    z_few = None if z is None else z[0, :few]
    more += augmentation_readings(h[0, :few], z_few, kept, *drawn)
    finite = [reading for reading in more if math.isfinite(reading.value)]
    result = result.plus(*finite, notes=(*notes, *([parts.why] if parts.why else [])))
    text = json.dumps(result.as_dict(), indent=2, ensure_ascii=False) + "\n"
    write_whole(found.folder / NAME, lambda file: file.write(text.encode()))
    return result


def pool_of(
    run: Opened, data: Any, n_pool: int, device: Any, root: str | None
) -> tuple[list[ImageSource], tuple[str, ...]]:
    """Held-out images first; training images after them if those are too few."""
    drawn = data == "shapes" if isinstance(data, str) else run.settings.data == "shapes"
    fresh = n_pool if drawn and (data is None or isinstance(data, str)) else None
    where: dict[str, Any] = {"device": device, "root": root}
    test, notes = part_of(run, data, "test", n=fresh, **where)
    if len(test) >= n_pool:
        return [test], notes
    train, _ = part_of(run, data, "train", **where)
    n, asked = len(test) + len(train), min(n_pool, len(test) + len(train))
    if n < 10:
        raise DataError(
            f"{test.name} has {n} images: too few to read anything from. Use 10 or "
            "more."
        )
    short = f" of the {n_pool:,} asked for, all there are" if n < n_pool else ""
    note = (
        f"The pool holds {asked:,} images{short}; {asked - len(test):,} of them are "
        "training images, so its information is an estimate rather than a bound."
    )
    return [test, train], (*notes, note)


def keys(run: Opened) -> tuple[int, int]:
    """Seed and epoch of the views: an epoch that training has not seen."""
    return run.settings.seed, run.settings.epochs


def embedded(
    run: Opened, parts: Rebuilt, sources: list[ImageSource], n_pool: int, device: Any
) -> tuple[Float[Tensor, "2 n e"], Float[Tensor, "2 n d"] | None]:
    """H and z of two views of the pool's images, in its order."""
    seed, epoch = keys(run)
    encoder = run.encoder.to(device)
    head = None if parts.learner is None else parts.learner.head
    h: list[Tensor] = []
    z: list[Tensor] = []
    left = n_pool
    for source in sources:
        rows = torch.arange(len(source)) if not h else rows_of(source, left)
        rows = rows[:left]
        if not len(rows):
            break
        a, b = view_features(
            source, rows, parts.views, encoder, head, device, seed=seed, epoch=epoch
        )
        h.append(a)
        z += [] if b is None else [b]
        left -= len(rows)
    return torch.cat(h, 1), torch.cat(z, 1) if z else None


def temperature_of(parts: Rebuilt) -> float:
    """That of the objective, where it has one."""
    objective = None if parts.learner is None else parts.learner.objective
    return float(getattr(objective, "temperature", UNTEMPERED))


def lines(result: Diagnosis, width: int = 100) -> list[str]:
    """What to print: a line of numbers a reading, its sentence below."""
    import textwrap

    said = []
    for reading in result.readings:
        scale = [
            f"{name} {number(value)}"
            for name, value in (("ideal", reading.ideal), ("at most", reading.ceiling))
            if value is not None
        ]
        unit = f" {reading.unit}" if reading.unit else ""
        first = f"{reading.name} of {reading.of}: {number(reading.value)}{unit}"
        said.append(first + (f" ({', '.join(scale)})" if scale else ""))
        said += textwrap.wrap(
            reading.meaning, width, initial_indent="    ", subsequent_indent="    "
        )
    return said + [f"note: {note}" for note in result.notes]


def number(value: float) -> str:
    """Few digits, no exponent for what people meet.

    >>> number(0.12345), number(12800.0), number(-3.9)
    ('0.123', '12,800', '-3.90')
    """
    if value == int(value) and abs(value) >= 10:
        return f"{int(value):,}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


__all__ = ["Reading", "diagnose", "lines"]
