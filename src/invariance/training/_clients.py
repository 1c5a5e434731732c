r"""Simulated clients: who has which samples, and who takes which steps of a round.

With a skew a, the shares of a class that go to the clients are a draw of the Dirichlet
law, p ~ Dir(a, ..., a), one draw per class. Small a gives a class to few clients. In a
round the clients that take part follow one another; each takes its steps from the
weights that the round began with, so it makes no difference who comes first.

All is known before the run, from seed and settings: nothing here needs a checkpoint.
"""

import bisect
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ..data import Source
from ..errors import DataError, SettingError
from ..methods import Method, keeps_every_sample
from ..words import count, join_words
from ._order import shuffle
from ._settings import Federated, Train

LEAST = 2  # samples of a batch: a contrast has two sides
NAMED = 5  # clients that a sentence names at most


@dataclass(frozen=True)
class Clients:
    """Whose each sample is."""

    owner: Int[Tensor, " n"]
    """The number of each sample's client."""
    names: tuple[str, ...]
    how: str
    """How the samples were shared out, in words."""

    @cached_property
    def sizes(self) -> list[int]:
        """Samples of each client."""
        return torch.bincount(self.owner, minlength=len(self.names)).tolist()

    @cached_property
    def fingerprint(self) -> str:
        """Of the split: a run goes on with the same one, or not at all."""
        return hashlib.sha256(self.owner.numpy().tobytes()).hexdigest()

    def count_labels(self, labels: Tensor | None) -> list[list[int]] | None:
        """Samples of each class at each client; None without labels."""
        if labels is None:
            return None
        classes, labels = labels.cpu().unique(return_inverse=True)
        cells = torch.bincount(
            self.owner * len(classes) + labels,
            minlength=len(self.names) * len(classes),
        )
        return cells.view(len(self.names), len(classes)).tolist()


def check_federated(settings: Train, method: Method, processes: int) -> None:
    """Refuse what clients cannot do."""
    federated = settings.federated
    if processes > 1:
        raise SettingError(
            "Simulated clients take turns in one process, but there are "
            f"{processes}: use --machine.devices 1 --machine.nodes 1."
        )
    if keeps_every_sample(method):
        raise SettingError(
            f"{settings.method} compares with a memory bank of every sample, which no "
            "client may see: use a method whose negatives are the client's own, such "
            "as simclr, byol, or moco with a queue per client."
        )
    if settings.ess.targets:
        raise SettingError(
            "ess.target makes one temperature follow the negatives of successive "
            "batches, and clients would pull it in different directions: leave it "
            "out, or train without clients."
        )
    if federated.noise is not None and federated.clip is None:
        raise SettingError(
            "federated.noise is a multiple of the longest update allowed, but no "
            "limit is set: add --federated.clip 1, or leave the noise out."
        )


def share_samples(settings: Federated, source: Source, seed: int) -> Clients:
    """Share the samples of a source out to clients, as the settings say."""
    if settings.assignment is not None:
        return read_assignment(Path(settings.assignment).expanduser(), source)
    n_clients = settings.clients or 1
    names = tuple(map(str, range(1, n_clients + 1)))
    if settings.skew is None:
        owner = split_evenly(len(source), n_clients, seed)
        return Clients(owner, names, "parts of equal size")
    if source.labels is None:
        raise DataError(
            f"federated.skew distributes samples by their labels, and {source.name} "
            "has none: leave it out for parts of equal size, or say which client has "
            "each sample (--federated.assignment)."
        )
    owner = split_by_label(source.labels.cpu(), n_clients, settings.skew, seed)
    return Clients(owner, names, f"by label, Dirichlet {settings.skew:g}")


def split_evenly(n_samples: int, n_clients: int, seed: int) -> Int[Tensor, " n"]:
    """Parts that differ by one sample at most, drawn at random.

    >>> split_evenly(5, 2, seed=0).bincount()
    tensor([3, 2])
    """
    order = np.random.default_rng([seed % 2**63, 0]).permutation(n_samples)
    owner = torch.empty(n_samples, dtype=torch.long)
    owner[torch.from_numpy(order)] = torch.arange(n_samples) % n_clients
    return owner


def split_by_label(
    labels: Int[Tensor, " n"], n_clients: int, skew: float, seed: int
) -> Int[Tensor, " n"]:
    """Each class shared out by a draw of the Dirichlet law of its own.

    >>> labels = torch.arange(400) % 4
    >>> owner = split_by_label(labels, 2, skew=1e6, seed=0)
    >>> owner[labels == 3].bincount()  # as good as even
    tensor([50, 50])
    """
    generator = np.random.default_rng([seed % 2**63, 1])
    owner = torch.empty(len(labels), dtype=torch.long)
    for label in labels.unique():
        rows = (labels == label).nonzero()[:, 0].numpy()
        shares = generator.dirichlet([skew] * n_clients)
        ends = np.round(shares.cumsum() * len(rows)).astype(int)[:-1]
        for client, part in enumerate(np.split(generator.permutation(rows), ends)):
            owner[torch.from_numpy(part)] = client
    return owner


def read_assignment(path: Path, source: Source) -> Clients:
    """Whose each sample is, from a file: one name or number per sample, in order."""
    word = source.kind.word
    try:
        if path.suffix == ".npy":
            entries = np.load(path, allow_pickle=False)
        else:
            entries = np.array(path.read_text(encoding="utf-8").split("\n"))
            entries = entries[: -1 if entries[-1] == "" else None]
    except (OSError, ValueError, UnicodeDecodeError) as cause:
        raise DataError(
            f"federated.assignment is a .npy or text file that names a client per "
            f"{word}, and {str(path)!r} cannot be read as one: {cause}"
        ) from None
    if entries.shape != (len(source),) or entries.dtype.kind not in "iuU":
        raise DataError(
            f"federated.assignment needs a name or whole number for each of the "
            f"{len(source):,} {word}s to train on, in their order: {path.name} has "
            f"{entries.dtype} of shape {entries.shape}. What is held out is not among "
            "them (--hold-out nothing keeps all)."
        )
    names, owner = np.unique(entries, return_inverse=True)
    texts = tuple(str(name).strip() for name in names.tolist())
    return Clients(torch.from_numpy(owner).long(), texts, f"as {path.name} says")


class Visit(NamedTuple):
    """A client's part of a round."""

    round: int
    client: int
    start: int
    """Steps of the run before it."""
    n_steps: int
    n_before: int
    """Rounds that this client has taken part in before."""
    ends_round: bool

    @property
    def end(self) -> int:
        """Steps of the run after it."""
        return self.start + self.n_steps


@dataclass(frozen=True)
class Rounds:
    """The order of a federated run, in which an epoch is a round."""

    clients: Clients
    settings: Federated
    batch_size: int
    accumulate: int
    seed: int
    n_epochs: int

    @cached_property
    def batches(self) -> list[int]:
        """Each client's batch: all of its samples where they are fewer than one."""
        sizes = self.clients.sizes
        return [min(self.batch_size, size // self.accumulate) for size in sizes]

    @cached_property
    def active(self) -> list[int]:
        """The clients that have enough samples for a step."""
        return [c for c, batch in enumerate(self.batches) if batch >= LEAST]

    @property
    def per_round(self) -> int:
        """Clients that take part in a round."""
        share = self.settings.participation * len(self.active)
        return max(int(share + 0.5), 1)

    def steps_per_pass(self, client: int) -> int:
        """Steps in which a client sees its samples once."""
        return self.clients.sizes[client] // (self.batches[client] * self.accumulate)

    def steps_of(self, client: int) -> int:
        """Steps that a client takes in a round."""
        passes = self.settings.local_epochs or 1
        return self.settings.local_steps or passes * self.steps_per_pass(client)

    def draw(self, epoch: int) -> list[int]:
        """The clients of a round."""
        generator = np.random.default_rng([self.seed % 2**63, 2, epoch])
        return sorted(generator.permutation(self.active)[: self.per_round].tolist())

    @cached_property
    def visits(self) -> list[Visit]:
        """All of the run, in their order."""
        visits, start, counts = [], 0, [0] * len(self.batches)
        for epoch in range(self.n_epochs):
            clients = self.draw(epoch)
            for client in clients:
                n_steps, last = self.steps_of(client), client == clients[-1]
                visit = Visit(epoch, client, start, n_steps, counts[client], last)
                visits.append(visit)
                start, counts[client] = visit.end, counts[client] + 1
        return visits

    @cached_property
    def ends(self) -> list[int]:
        """Steps after each visit."""
        return [visit.end for visit in self.visits]

    @cached_property
    def round_ends(self) -> list[int]:
        """Steps after each round."""
        return [visit.end for visit in self.visits if visit.ends_round]

    def find_visit(self, step: int) -> Visit:
        """The visit that a step belongs to."""
        return self.visits[bisect.bisect_right(self.ends, step)]

    @property
    def n_steps(self) -> int:
        """Steps of the whole run, over all clients and rounds."""
        return self.ends[-1]

    @property
    def steps_per_epoch(self) -> int:
        """Steps of a round, on average."""
        return max(self.n_steps // self.n_epochs, 1)

    def first_step(self, epoch: int) -> int:
        """Steps before a round."""
        return self.round_ends[epoch - 1] if epoch else 0

    def find_epoch(self, step: int) -> int:
        """The round that a step belongs to."""
        return bisect.bisect_right(self.round_ends, step)

    def ends_epoch(self, done: int) -> bool:
        """Whether a round is over after so many steps."""
        return done == self.first_step(self.find_epoch(done))

    def count_epochs(self, done: int) -> float:
        """How many rounds are over after so many steps, and what part of the next."""
        epoch = self.find_epoch(done)
        if epoch == self.n_epochs:
            return float(epoch)
        first, end = map(self.first_step, (epoch, epoch + 1))
        return epoch + (done - first) / (end - first)

    def find_rate(self, step: int) -> tuple[int, int]:
        """Where a step stands in the schedule of the learning rate, and its length.

        Clients of one round go through the same stretch of it, each in its own steps.
        """
        visit = self.find_visit(step)
        done = visit.round * visit.n_steps + step - visit.start
        return done, self.n_epochs * visit.n_steps

    def count_samples(self, start: int, end: int) -> int:
        """Samples that the steps from one to another take."""
        clients = (self.find_visit(step).client for step in range(start, end))
        return sum(self.batches[client] for client in clients) * self.accumulate

    def turns(self, epoch: int, rank: int) -> list[tuple[int, Tensor]]:
        """For each step of a round the client's pass it belongs to, and its samples."""
        first = bisect.bisect_right(self.ends, self.first_step(epoch))
        visits = self.visits[first : first + self.per_round]
        return [turn for visit in visits for turn in self.turns_of(visit)]

    def turns_of(self, visit: Visit) -> Iterator[tuple[int, Tensor]]:
        """The steps of a client in a round, from where it stopped in its last one."""
        client, orders = visit.client, {}
        length, batch = self.steps_per_pass(client), self.batches[client]
        before = visit.n_before * visit.n_steps
        for step in range(before, before + visit.n_steps):
            epoch, place = divmod(step, length)
            if epoch not in orders:
                order = shuffle(len(self.clients.owner), self.seed, epoch)
                mine = order[self.clients.owner[order] == client]
                orders = {epoch: mine[: length * self.accumulate * batch]}
            steps = orders[epoch].view(length, self.accumulate, batch)
            yield epoch, steps[place]

    def check(self, word: str) -> None:
        """Raise where nobody has enough samples for a step."""
        if not self.active:
            skew = "" if self.settings.skew is None else ", a larger --federated.skew"
            advice = f"use fewer clients{skew} or more {word}s"
            if self.settings.assignment is not None:
                advice = f"give each client more {word}s in {self.settings.assignment}"
            raise DataError(
                f"None of the {count(len(self.batches), 'client')} has the "
                f"{self.least} {word}s that a step needs: {advice}."
            )

    @property
    def least(self) -> int:
        """Samples that a client needs."""
        return LEAST * self.accumulate

    def describe(self, word: str) -> str:
        """Who the clients are and what a round is, in a sentence."""
        sizes, steps = self.clients.sizes, [self.steps_of(c) for c in self.active]
        some, most = min(sizes), max(sizes)
        span = f"{some:,}" if some == most else f"{some:,} to {most:,}"
        low, high = min(steps), max(steps)
        each = count(high, "step") if low == high else f"{low:,} to {high:,} steps"
        states = {"fresh": "restarted in every round", "kept": "kept between rounds"}
        return (
            f"clients: {len(sizes)} with {span} {word}s ({self.clients.how}); an "
            f"epoch is a round, in which {self.per_round} of {len(self.active)} take "
            f"{each} each from the server's weights, with their own optimizers, "
            f"{states[self.settings.optimizer]}; the server takes their mean, "
            f"{'each alike' if self.settings.noise else 'weighted by samples'}"
        )

    def describe_small(self, word: str) -> Iterator[str]:
        """Which clients have smaller batches than others."""
        batches = self.batches
        small = [c for c in self.active if batches[c] < self.batch_size]
        if small:
            fewest = min(batches[c] for c in small)
            yield (
                f"smaller batches: {count(len(small), 'client')} with fewer {word}s "
                f"than a batch of {self.batch_size} take all they have at once, "
                f"{fewest} at least"
            )

    def describe_left_out(self, word: str) -> Iterator[str]:
        """Which clients have too few samples to take part."""
        batches, sizes = self.batches, self.clients.sizes
        out = [c for c in range(len(batches)) if batches[c] < LEAST]
        if out:
            named = [f"{self.clients.names[c]} ({sizes[c]})" for c in out[:NAMED]]
            if len(out) > NAMED:
                named.append(f"{len(out) - NAMED} others")
            one = len(out) == 1
            yield (
                f"{'Client' if one else 'Clients'} {join_words(named)} "
                f"{'has' if one else 'have'} fewer than the {self.least} {word}s that "
                f"a step needs: left out of all rounds."
            )
