"""The pool: samples of a run whose views are read, held-out ones first.

Where too few were held out for a hundred batches, training samples fill it up, and a
note says so.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..data import Source
from ..encoders import Encoder
from ..errors import DataError
from ..evaluation import encode_views, list_partnered
from ..plain_numbers import check_least
from ._open import OpenRun, Rebuilt, rebuild_learner
from ._open_data import RunData

FACTOR = 100  # batches of a pool
MOST_BYTES = 1 << 30  # of h of two views, in float32, the largest thing held
FEWEST = 10  # samples that anything is read from


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

    @property
    def views(self) -> tuple[str, Float[Tensor, "_ n f"]]:
        """What is compared: "z", or "h" where there is no head, and its views."""
        return ("h", self.h) if self.z is None else ("z", self.z)


@dataclass(frozen=True)
class Pool:
    """Samples to read, and what they are seen by."""

    run: OpenRun
    parts: Rebuilt
    sources: list[Source]
    """Samples that were held out, if any, then others."""
    n: int
    """How many samples are read at most."""
    batch_size: int
    """Whose mini-batch estimates are compared with those of the pool."""
    device: torch.device
    notes: tuple[str, ...]

    @property
    def word(self) -> str:
        """What a sample is called."""
        return self.sources[0].kind.word

    @property
    def n_held_out(self) -> int:
        """Samples of the first source, which were held out where any were."""
        return len(list_partnered(self.sources[0]))

    @property
    def seed(self) -> int:
        """Of the views."""
        return self.run.settings.seed

    @property
    def epoch(self) -> int:
        """Of the views: one that training has not seen."""
        return self.run.settings.epochs

    def encode(self, encoder: Encoder) -> Rows:
        """Views of the samples: source after source, each in an order of its own."""
        encoder = encoder.to(self.device)
        head = getattr(self.parts.learner, "head", None)
        blocks: list[Rows] = []
        left = self.n
        for source in self.sources:
            if not left:
                break
            partnered = list_partnered(source)
            # folders are read class by class: in their order a batch would hold one
            mixed = torch.Generator().manual_seed(0)
            rows = partnered[torch.randperm(len(partnered), generator=mixed)[:left]]
            h, z = encode_views(
                encoder,
                head,
                source,
                rows,
                self.parts.views,
                seed=self.seed,
                epoch=self.epoch,
                device=self.device,
                other=self.parts.other,
            )
            labels = None if source.labels is None else source.labels.cpu()[rows]
            blocks.append(Rows(h, z, rows, labels))
            left -= len(rows)
        z_parts = [part.z for part in blocks if part.z is not None]
        label_parts = [part.labels for part in blocks if part.labels is not None]
        return Rows(
            torch.cat([part.h for part in blocks], 1),
            torch.cat(z_parts, 1) if z_parts else None,
            torch.cat([part.samples for part in blocks]),
            torch.cat(label_parts) if len(label_parts) == len(blocks) else None,
        )


def open_pool(
    run: OpenRun,
    data: Any,
    device: torch.device,
    *,
    batch_size: int | None = None,
    n: int | None = None,
    data_root: str | None = None,
) -> Pool:
    """The samples of a run, or of other data, and its learner.

    Args:
        run: The run.
        data: What to look at; None is the run's own.
        device: Where it is done.
        batch_size: None is the run's.
        n: How many samples; None is a hundred batches, or all there are.
        data_root: Where named data sets are kept.
    """
    check_least("batch_size", batch_size, 2)
    check_least("pool", n, 2)
    size = run.batch_size if batch_size is None else batch_size
    asked, most = FACTOR * size, MOST_BYTES // (8 * run.encoder.width)
    n_pool = min(asked, most) if n is None else n
    sources, notes = load_pool(RunData(run, data, device, data_root), n_pool)
    if n is None and most < asked:
        word = sources[0].kind.word
        notes = (*notes, f"The pool is cut to {n_pool:,} {word}s to stay below 1 GiB.")
    parts = rebuild_learner(run, sources[0], data, device)
    return Pool(run, parts, sources, n_pool, size, device, notes)


def load_pool(data: RunData, n_pool: int) -> tuple[list[Source], tuple[str, ...]]:
    """Held-out images first; training images after them if those are too few."""
    name = data.run.settings.data if data.data is None else data.data
    drawn = isinstance(name, str) and name == "shapes"  # as many as anybody wants
    sources: list[Source] = []
    notes: tuple[str, ...] = ()
    if not (data.is_own and data.run.held_out_nothing):
        try:
            test, notes = data.load("test", n=n_pool if drawn else None)
        except DataError:
            if data.is_own:
                raise
            test, notes = data.load("all")  # none was trained on
            return [check_enough(test)], notes
        sources = [test]
    n_held_out = sum(map(len, sources))
    if n_held_out >= n_pool:
        return sources, notes
    train, more = data.load("train")
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
    if (n := len(source) + n_more) < FEWEST:
        raise DataError(
            f"{source.name} has {n} {source.kind.word}s: too few to read anything "
            f"from. Use {FEWEST} or more."
        )
    return source
