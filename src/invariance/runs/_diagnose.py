"""``diagnose``: a run in, every reading of its embeddings out, each with a sentence.

Images that were never trained on come first; where there are too few of those for the
pool of a hundred batches, training images fill it up, and a note says so.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..data import Source
from ..devices import choose_device
from ..diagnostics import Diagnosis, Reading, diagnosis
from ..errors import DataError
from ..evaluation import encode_views, list_partnered
from ..folder import DIAGNOSTICS, write_json
from ..plain_numbers import check_least
from ..progress import tell
from ..training import Run, temperature_of
from ._deep_readings import augmentation_readings, gradient_readings, pool_readings
from ._open import OpenRun, Rebuilt, load_part, open_run, rebuild_learner

FACTOR = 100
DIAGNOSED = 2000
PROBED = 4000
MOST_BYTES = 1 << 30
ONE_VIEW = (
    "This run shows each sample in only one view: alignment, information and "
    "gradients, which compare two views, are not read."
)
SAME_VIEWS = (
    "The two views of a sample are the same here, since dropout is off: alignment, "
    "information and gradients, which compare two views, are not read."
)
ATTACKED = (
    "This run was trained on views that an attack had changed (--views.adversarial): "
    "the readings here are of views without the attack."
)
ENOUGH = 200  # held-out images; of fewer, training images help out


def diagnose(
    run: str | Path | Run,
    *,
    data: Any = None,
    batch_size: int | None = None,
    pool: int | None = None,
    network: nn.Module | None = None,
    data_root: str | None = None,
    device: str = "auto",
    keep: bool = True,
    quiet: bool = True,
) -> Diagnosis:
    """Measure what a run's encoder and head make of views; write diagnostics.json.

    Args:
        run: A run folder, or what ``train`` returned.
        data: A name, path, array or Dataset to look at; None is the run's own. Labels
            are not needed.
        batch_size: Whose mini-batch estimates are compared; None is the run's.
        pool: Images of the large pool; None is a hundred batches, or all there are.
        network: The module itself, when the run was trained on one of your own.
        data_root: Where named data sets are kept; None is where the run found them.
        device: "auto", "cpu", "cuda".
        keep: Write diagnostics.json into the run folder.
        quiet: Say nothing while it works; otherwise a line about each part.
    """
    opened = open_run(run, network=network)
    place = choose_device(device, auto=("cuda",))
    size = opened.batch_size if batch_size is None else batch_size
    # h of two views, in float32, is the largest thing held
    most = MOST_BYTES // (8 * opened.encoder.width)
    n_pool = min(FACTOR * size, most) if pool is None else pool
    check_least("batch_size", batch_size, 2)
    check_least("pool", pool, 2)
    sources, notes = load_pool(opened, data, n_pool, place, data_root)
    word = sources[0].kind.word
    if pool is None and n_pool < FACTOR * size:
        notes = (*notes, f"The pool is cut to {n_pool:,} {word}s to stay below 1 GiB.")
    parts = rebuild_learner(opened, sources[0], data, place)
    tell(
        f"{opened.name}: embedding views of {n_pool:,} {word}s or all there are",
        quiet=quiet,
    )
    rows = encode_pool(opened, parts, sources, n_pool, place)
    tell(f"{opened.name}: alignment, uniformity, spectrum", quiet=quiet)
    # held-out images come first, and are enough if there are enough of them
    held = min(len(list_partnered(sources[0])), n_pool)
    few = rows.first(min(held if held >= ENOUGH else n_pool, DIAGNOSED))
    objective = None if parts.learner is None else parts.learner.cosine_objective
    temperature = temperature_of(objective)
    result = diagnosis(
        few.h,
        few.z,
        labels=few.labels,
        temperature=temperature,
        negatives=getattr(objective, "negatives", None) or "cross",
        held_out=len(few.samples) <= held,
    )
    more: list[Reading] = []
    unread = [ONE_VIEW if len(parts.views.pipelines) == 1 else SAME_VIEWS]
    (u, *others), of = (rows.h, "h") if rows.z is None else (rows.z, "z")
    for v in others:
        n = f"{size} and {len(u):,} candidates"
        tell(f"{opened.name}: information at {n}", quiet=quiet)
        more += pool_readings(of, u, v, temperature, size)
        tell(f"{opened.name}: gradients, objective by objective", quiet=quiet)
        readings, unread = gradient_readings(
            of,
            u,
            v,
            trained=objective,
            temperature=temperature,
            batch_size=size,
            labels=rows.labels,
        )
        more += readings
    tell(f"{opened.name}: what h and z keep of the views", quiet=quiet)
    few = rows.first(min(held if held >= ENOUGH else n_pool, PROBED))
    seed, epoch = view_keys(opened)
    more += augmentation_readings(
        few.h[0],
        None if few.z is None else few.z[0],
        few.labels,
        parts.views,
        sources[0].shape,
        few.samples,
        seed,
        epoch,
    )
    finite = [reading for reading in more if math.isfinite(reading.value)]
    why = [parts.why] if parts.why else []
    why += parts.learner.notes if parts.learner else ()
    why += [ATTACKED] if opened.settings.views_adversarial else []
    result = result.plus(*finite, notes=(*notes, *unread, *why))
    if keep:
        try:
            keep_readings(opened.folder, result)
        except DataError as cause:  # they took long: handed over all the same
            return result.plus(notes=(str(cause),))
    return result


def keep_readings(folder: str | Path, result: Diagnosis) -> None:
    """Write them into the run folder, for the report."""
    folder = Path(folder).expanduser()
    advice = f"The readings of {folder} were not saved."
    write_json(folder / DIAGNOSTICS, result.as_dict(), advice=advice)


@dataclass(frozen=True)
class Rows:
    """Embeddings of one or two views of samples, and which samples they are."""

    h: Float[Tensor, "_ n e"]
    z: Float[Tensor, "_ n d"] | None
    samples: Int[Tensor, " n"]
    labels: Int[Tensor, " n"] | None

    def first(self, n: int) -> "Rows":
        """At most so many of them."""
        z = None if self.z is None else self.z[:, :n]
        labels = None if self.labels is None else self.labels[:n]
        return Rows(self.h[:, :n], z, self.samples[:n], labels)


def load_pool(
    run: OpenRun, data: Any, n_pool: int, device: Any, data_root: str | None
) -> tuple[list[Source], tuple[str, ...]]:
    """Held-out images first; training images after them if those are too few."""
    drawn = data == "shapes" if isinstance(data, str) else run.settings.data == "shapes"
    fresh = n_pool if drawn and (data is None or isinstance(data, str)) else None
    is_own = run.is_own(data, data_root)
    where: dict[str, Any] = {"is_own": is_own, "device": device, "data_root": data_root}
    sources: list[Source] = []
    notes: tuple[str, ...] = ()
    if not (is_own and run.held_out_nothing):
        try:
            test, notes = load_part(run, data, "test", n=fresh, **where)
        except DataError:
            if is_own:
                raise
            test, notes = load_part(run, data, "all", **where)  # none was trained on
            return [check_enough(test)], notes
        sources = [test]
    n_held_out = sum(map(len, sources))
    if n_held_out >= n_pool:
        return sources, notes
    train, more = load_part(run, data, "train", **where)
    n, asked = n_held_out + len(train), min(n_pool, n_held_out + len(train))
    check_enough(train, n_held_out)
    word = train.kind.word
    short = f" of the {n_pool:,} asked for, all there are" if n < n_pool else ""
    note = (
        f"The pool holds {asked:,} {word}s{short}; {asked - n_held_out:,} of them are "
        f"training {word}s, so its information is an estimate rather than a bound."
    )
    return [*sources, train], (*(notes or more), note)


def check_enough(source: Source, n_more: int = 0) -> Source:
    """The images, unless with so many more they are too few."""
    if (n := len(source) + n_more) < 10:
        raise DataError(
            f"{source.name} has {n} {source.kind.word}s: too few to read anything "
            "from. Use 10 or more."
        )
    return source


def view_keys(run: OpenRun) -> tuple[int, int]:
    """Seed and epoch of the views: an epoch that training has not seen."""
    return run.settings.seed, run.settings.epochs


def encode_pool(
    run: OpenRun, parts: Rebuilt, sources: list[Source], n_pool: int, device: Any
) -> Rows:
    """Two views of the pool's images: part after part, each in an order of its own."""
    seed, epoch = view_keys(run)
    encoder = run.encoder.to(device)
    head = getattr(parts.learner, "head", None)
    blocks: list[Rows] = []
    left = n_pool
    for source in sources:
        if not left:
            break
        partnered = list_partnered(source)
        # folders are read class by class: mixed, or a batch would hold one class only
        mixed = torch.Generator().manual_seed(0)
        rows = partnered[torch.randperm(len(partnered), generator=mixed)[:left]]
        h, z = encode_views(
            encoder,
            head,
            source,
            rows,
            parts.views,
            seed=seed,
            epoch=epoch,
            device=device,
            other=parts.other,
        )
        labels = None if source.labels is None else source.labels.cpu()[rows]
        blocks.append(Rows(h, z, rows, labels))
        left -= len(rows)
    h = torch.cat([part.h for part in blocks], 1)
    z_parts = [part.z for part in blocks if part.z is not None]
    label_parts = [part.labels for part in blocks if part.labels is not None]
    return Rows(
        h,
        torch.cat(z_parts, 1) if z_parts else None,
        torch.cat([part.samples for part in blocks]),
        torch.cat(label_parts) if len(label_parts) == len(blocks) else None,
    )
