"""What a step is fed with: batches of views, a learning rate, the share that is done.

Where the samples lie on one GPU, all of it is read there, from tables that are written
once per epoch, at a place that the step itself moves on: nothing waits for the host,
and a CUDA graph can hold the step. Elsewhere batches come as the source hands them
over, and numbers are Python's.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..data import Resident
from ..views import DeviceViews, Draws, LazyView, LazyViews
from ._lightning import Fabric
from ._order import Epochs
from ._run_plan import Plan
from ._schedule import rate_at


class Batch(NamedTuple):
    """The views of some samples, and what is known of them."""

    views: Sequence[Tensor | LazyView]
    labels: Tensor | None
    ids: Tensor


class HostFeed:
    """Batches as the source hands them over; numbers are Python's."""

    def __init__(self, fabric: Fabric, plan: Plan) -> None:
        self.fabric, self.plan = fabric, plan
        self.waited = 0.0
        self.done = -1  # it has not begun
        self.turns: Iterator[tuple[int, Any]] = iter(())
        self.read: Iterator[list[Tensor]] = iter(())

    def begin(self, epoch: int, place: int) -> None:
        """Go to a step of an epoch, unless the feed is there already.

        Reading goes on from one epoch to the next, so that no epoch begins by waiting.
        """
        done = self.plan.order.first_step(epoch) + place
        if done == self.done:
            return
        self.turns = self.turns_from(epoch, place)
        batches = (
            batch for _, samples in self.turns_from(epoch, place) for batch in samples
        )
        self.read = self.plan.batches(batches, self.fabric.device)
        self.done = done

    def turns_from(self, epoch: int, place: int) -> Iterator[tuple[int, Tensor]]:
        """For each step to the end of the run the pass it belongs to, and its samples.

        The order of an epoch is drawn once the one before it has been handed out.
        """
        order = self.plan.order
        for later in range(epoch, order.n_epochs):
            turns = order.turns(later, self.fabric.global_rank)
            yield from turns[place if later == epoch else 0 :]

    def advance(self, optimizer: Any) -> float:
        """Go on to the next step: set its rate; gives the share done after it."""
        done, n_steps = self.plan.order.find_rate(self.done)
        lr = rate_of(self.plan, self.done)
        for group in optimizer.param_groups:
            group["lr"] = lr
        self.done += 1
        return (done + 1) / n_steps

    def batches(self) -> Iterator[Batch]:
        """The batches of this step."""
        plan, device = self.plan, self.fabric.device
        self.epoch, batches = next(self.turns)
        for samples in batches:
            before = time.perf_counter()
            sides = next(self.read)
            self.waited += time.perf_counter() - before
            make = partial(self.make_views, sides, samples)
            views = see(plan, make, len(samples))
            yield Batch(views, plan.labels(samples, device), samples.to(device))

    def close(self) -> None:
        """Read no further, which ends the processes that do it.

        Batches are asked for by the feed that holds them: a cycle, so without this the
        processes would live until Python happens to look for cycles.
        """
        self.turns, self.read, self.done = iter(()), iter(()), -1

    def draws(self, ids: Tensor, view: int) -> Draws:
        """Random numbers of these samples in this epoch."""
        return Draws(self.plan.settings.seed, self.epoch, ids, view)

    def make_views(
        self, sides: list[Tensor], samples: Tensor, where: slice
    ) -> list[Tensor]:
        """The views of some samples of a batch."""
        some = [side[where] for side in sides]
        return self.plan.see(some, samples[where], self.epoch)


class DeviceFeed:
    """Batches of resident samples; everything that changes lies on the device.

    The optimizer's groups hold ``lr`` itself, as ``build_optimizer`` made them.
    """

    waited = 0.0

    def __init__(self, plan: Plan, lr: Tensor) -> None:
        self.plan, self.lr, device = plan, lr, lr.device
        assert isinstance(plan.order, Epochs)
        self.epochs = plan.order
        self.views = device_views(plan)
        self.labels = None
        if plan.method.labeled and plan.source.labels is not None:
            self.labels = plan.source.labels.to(device)
        self.order = self.epochs.steps(0, 0).to(device)
        self.rates = torch.zeros(plan.steps_per_epoch, device=device)
        self.shares = torch.zeros(plan.steps_per_epoch, device=device)
        self.place = torch.zeros(1, dtype=torch.long, device=device)
        self.keys = self.make_keys(0)

    def begin(self, epoch: int, place: int) -> None:
        """Go to a step of an epoch: its tables are written."""
        plan = self.plan
        first = epoch * plan.steps_per_epoch
        steps = range(first, first + plan.steps_per_epoch)
        order, rates = self.epochs.steps(epoch, 0), [rate_of(plan, s) for s in steps]
        shares = [(step + 1) / plan.n_steps for step in steps]
        send(order, self.order)
        send(torch.tensor(rates), self.rates)
        send(torch.tensor(shares), self.shares)
        for keys, fresh in zip(self.keys, self.make_keys(epoch), strict=True):
            keys.copy_(fresh)
        self.place.fill_(place)

    def advance(self, optimizer: Any) -> Tensor:
        """Go on to the next step: set its rate; gives the share done after it."""
        self.rows = self.order.index_select(0, self.place)[0]
        self.lr.copy_(self.rates.index_select(0, self.place)[0])
        share = self.shares.index_select(0, self.place)[0]
        self.place += 1
        return share

    def batches(self) -> Iterator[Batch]:
        """The batches of this step."""
        for rows in self.rows:
            labels = None if self.labels is None else self.labels.index_select(0, rows)
            make = partial(self.make_views, rows)
            yield Batch(see(self.plan, make, len(rows)), labels, rows)

    def close(self) -> None:
        """There is nothing to end: the samples lie on the device."""

    def draws(self, ids: Tensor, view: int) -> Draws:
        """Random numbers of these samples in this epoch."""
        return Draws.from_key(self.keys[0][0], ids, view)

    def make_views(self, rows: Tensor, where: slice) -> list[Tensor]:
        """The views of some rows of a batch."""
        sides = zip(self.views, self.keys, strict=True)
        return [view for views, keys in sides for view in views(rows[where], keys)]

    def make_keys(self, epoch: int) -> list[Tensor]:
        """What the views of each side need to know of seed and epoch."""
        sides = zip(self.views, self.plan.seeds, strict=False)
        return [views.keys(seed, epoch) for views, seed in sides]


def device_views(plan: Plan) -> list[DeviceViews]:
    """The views of each side's samples, which are resident."""
    made = []
    for views, source in zip(plan.view_sets, plan.sides, strict=True):
        assert isinstance(source, Resident)
        made.append(DeviceViews(views, source.samples, channels_last=True))
    return made


def see(
    plan: Plan, make: Callable[[slice], list[Tensor]], n: int
) -> list[Tensor] | list[LazyView]:
    """The views of a batch, or of its pieces later, where it is encoded in pieces."""
    if plan.settings.micro_batch is None or not plan.alone:
        return make(slice(0, n))
    return list(LazyViews(make, n, like=make(slice(0, 1))))


def send(numbers: Tensor, table: Tensor) -> None:
    """Write a table when the device comes to it; the host goes on."""
    table.copy_(numbers.pin_memory() if table.is_cuda else numbers, non_blocking=True)


def rate_of(plan: Plan, step: int) -> float:
    """The learning rate of a step of a plan."""
    place, n_steps = plan.order.find_rate(step)
    return rate_at(place, n_steps, plan.peak, plan.settings.optim.warmup)
