"""Which samples each step takes: one pass over all of them per epoch, by seed alone."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class Epochs:
    """The order of a run that has all samples in one place."""

    n_samples: int
    batch_size: int
    """Samples in one contrast, over all processes."""
    accumulate: int
    """Batches in one step."""
    processes: int
    seed: int
    n_epochs: int

    @property
    def per_step(self) -> int:
        """Samples that a step takes."""
        return self.batch_size * self.accumulate

    @property
    def steps_per_epoch(self) -> int:
        """Whole steps only: samples that are left over have their turn another time."""
        return self.n_samples // self.per_step

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        return self.steps_per_epoch * self.n_epochs

    def first_step(self, epoch: int) -> int:
        """Steps before an epoch."""
        return epoch * self.steps_per_epoch

    def find_epoch(self, step: int) -> int:
        """The epoch that a step belongs to."""
        return step // self.steps_per_epoch

    def ends_epoch(self, done: int) -> bool:
        """Whether an epoch is over after so many steps."""
        return done % self.steps_per_epoch == 0

    def count_epochs(self, done: int) -> float:
        """How many epochs are over after so many steps, and what part of the next."""
        return done / self.steps_per_epoch

    def find_rate(self, step: int) -> tuple[int, int]:
        """Where a step stands in the schedule of the learning rate, and its length."""
        return step, self.n_steps

    def count_samples(self, start: int, end: int) -> int:
        """Samples that the steps from one to another take."""
        return (end - start) * self.per_step

    def turns(self, epoch: int, rank: int) -> list[tuple[int, Tensor]]:
        """For each step of an epoch the pass it belongs to, and its samples."""
        return [(epoch, samples) for samples in self.steps(epoch, rank)]

    def steps(self, epoch: int, rank: int) -> Int[Tensor, "steps accumulate local"]:
        """Which samples each step of an epoch takes on one of the processes."""
        order = shuffle(self.n_samples, self.seed, epoch)
        order = order[: self.steps_per_epoch * self.per_step]
        local = self.batch_size // self.processes
        order = order.view(self.steps_per_epoch, self.accumulate, self.processes, local)
        return order[:, :, rank]


def shuffle(n_samples: int, seed: int, epoch: int) -> Int[Tensor, " n"]:
    """The order of all samples in a pass over them."""
    generator = torch.Generator().manual_seed(seed * 100_003 + epoch)
    return torch.randperm(n_samples, generator=generator)
