"""One process plays one of P: its arithmetic and its memory are real, the wire is not.

What a process of a larger run does depends on the others only through collectives. So
here is a process group of P in which every other process is taken to hold a copy of
what this one holds: gathering gives P copies, adding up multiplies by P, nothing is
sent. All that a process computes and allocates, it computes and allocates, gathered
rows and exchanged gradients too, whatever the method, the objective and the strategy.
What would have been sent is counted, and divided by a stated bandwidth.

So one machine can tell what a run on many would take. What it cannot tell: how long
processes wait for each other, and whether they slow each other down on one machine.
"""

# mypy: disable-error-code="override, assignment"
# PyTorch calls a group's methods by place, and has several signatures for each

import contextlib
import dataclasses
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..devices import usable_cores
from ..errors import SettingError
from ..words import count
from ._lightning import ClusterEnvironment
from ._settings import Machine

BACKEND = "rehearsal"


@dataclass(frozen=True)
class Link:
    """What connects processes; the figures are stated, not measured here."""

    name: str
    bytes_per_second: float
    """That one process receives while it sends as many."""
    seconds_per_call: float
    """Of an exchange that carries next to nothing."""

    def seconds(self, traffic: "Traffic") -> float:
        """What the exchanges take, one after another, with no computing meanwhile."""
        wire = sum(traffic.n_bytes.values()) / self.bytes_per_second
        return wire + sum(traffic.n_calls.values()) * self.seconds_per_call


GLOO = Link("gloo", 1e9, 2.5e-4)  # measured: benchmarks/results/predictions_cpu.md
NVLINK = Link("NVLink", 200e9, 3e-5)
NETWORK = Link("a network card of 400 Gbit/s per GPU", 40e9, 5e-5)


def choose_link(machine: Machine, device: torch.device) -> Link:
    """What such processes are usually connected by."""
    if device.type != "cuda":
        return GLOO
    return NVLINK if (machine.nodes or 1) == 1 else NETWORK


@dataclass(frozen=True)
class Traffic:
    """What one process receives, by kind of exchange; it sends as much."""

    n_bytes: Counter[str] = dataclasses.field(default_factory=Counter)
    n_calls: Counter[str] = dataclasses.field(default_factory=Counter)

    def add(self, kind: str, tensors: Any, share: float | int) -> None:
        """Count an exchange of which a process receives so many times its tensors."""
        tensors = [tensors] if isinstance(tensors, Tensor) else tensors
        size = sum(x.numel() * x.element_size() for x in tensors)
        self.n_bytes[kind] += round(size * share)
        self.n_calls[kind] += 1

    def per(self, n: int) -> "Traffic":
        """The nth part of it: of one step, where n steps were counted."""
        each = ({k: v // n for k, v in c.items()} for c in (self.n_bytes, self.n_calls))
        return Traffic(*map(Counter, each))

    def clear(self) -> None:
        """Start to count again."""
        self.n_bytes.clear()
        self.n_calls.clear()


class Done(dist.Work):
    """What PyTorch waits for after an exchange; here every exchange is over at once."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.future: torch.futures.Future[Any] = torch.futures.Future()
        self.future.set_result(result)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return at once."""
        return True

    def is_completed(self) -> bool:
        """Whether the exchange is over."""
        return True

    def get_future(self) -> Any:
        """The result of the exchange, for those who ask for a future."""
        return self.future


class RehearsalGroup(dist.ProcessGroup):
    """P processes that all hold what this one holds.

    The names of the methods are those by which PyTorch calls a group. ``traffic`` has
    the bytes of rings: to gather, a process receives the rows of all others; to add up,
    it receives nearly everything twice.
    """

    traffic = Traffic()  # of all groups: a part of the processes may form one

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.n, self.me = size, rank
        self.sent: dict[torch.Size, Tensor] = {}
        self.known_as = ""

    def _set_group_name(self, name: str) -> None:
        self.known_as = name

    @property
    def group_name(self) -> str:
        """As PyTorch has named it, which otherwise asks a backend."""
        return self.known_as

    def getBackendName(self) -> str:  # noqa: N802
        """The name under which PyTorch knows this kind of group."""
        return BACKEND

    def _get_backend(self, device: torch.device) -> "RehearsalGroup":
        return self

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Done:
        """Add up over processes: P copies of this one's tensors."""
        self.traffic.add("all-reduce", tensors, 2 * (self.n - 1) / self.n)
        return Done([self._reduce(x, opts) for x in tensors])

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Done:
        """Send the first process's tensors to all: this is the first."""
        self.traffic.add("broadcast", tensors, 1)
        return Done(tensors)

    def allgather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> Done:
        """Collect the tensors of all processes in a list: P copies."""
        self.traffic.add("all-gather", inputs, self.n - 1)
        for parts, x in zip(outputs, inputs, strict=True):
            for part in parts:
                part.copy_(x.view_as(part))
        return Done(outputs)

    def _allgather_base(self, output: Tensor, x: Tensor, opts: Any = None) -> Done:
        self.traffic.add("all-gather", x, self.n - 1)
        output.view(self.n, -1).copy_(x.reshape(1, -1).expand(self.n, -1))
        return Done([output])

    all_gather_single = _allgather_base

    def _reduce_scatter_base(self, output: Tensor, x: Tensor, opts: Any = None) -> Done:
        self.traffic.add("reduce-scatter", output, self.n - 1)
        output.view(-1).copy_(x.reshape(self.n, -1)[self.me])
        return Done([self._reduce(output, opts)])

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None
    ) -> Done:
        """Add up over processes, of which each gets its part of the sum."""
        self.traffic.add("reduce-scatter", outputs, self.n - 1)
        for output, parts in zip(outputs, inputs, strict=True):
            self._reduce(output.copy_(parts[self.me]), opts)
        return Done(outputs)

    def alltoall_base(
        self, output: Tensor, x: Tensor, out_splits: Any, in_splits: Any, opts: Any
    ) -> Done:
        """Exchange parts: what each of P copies has for this process."""
        self.traffic.add("all-to-all", x, (self.n - 1) / self.n)
        output.copy_(x.reshape(-1)[: output.numel()].view_as(output))
        return Done([output])

    def send(self, tensors: list[Tensor], to: int, tag: int = 0) -> Done:
        """Send to another process; what was sent is kept for ``recv``."""
        self.sent = {x.shape: x for x in tensors}
        return Done(tensors)

    def recv(self, tensors: list[Tensor], source: int, tag: int = 0) -> Done:
        """Receive from another process: what this one has just sent, or zeros."""
        self.traffic.add("send", tensors, 1)
        for x in tensors:
            x.copy_(self.sent[x.shape]) if x.shape in self.sent else x.zero_()
        return Done(tensors)

    def barrier(self, opts: Any = None) -> Done:
        """Wait for all processes, of which none is late."""
        return Done([torch.empty(0)])

    def _reduce(self, x: Tensor, opts: Any) -> Tensor:
        """The sum of P copies, or their mean, largest or smallest, which is a copy."""
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        return x.mul_(self.n) if op == dist.ReduceOp.SUM else x


def make_group(store: Any, rank: int, size: int, timeout: timedelta) -> RehearsalGroup:
    """As PyTorch makes a group whose backend is registered."""
    return RehearsalGroup(rank, size)


class FirstOf(ClusterEnvironment):
    """What Fabric asks to know which process this is: the first of P.

    They count as started already, so Fabric starts none. It also asks where they meet,
    but none of the others exists and nobody connects.
    """

    creates_processes_externally = True
    main_address, main_port = "127.0.0.1", 0

    def __init__(self, n_processes: int) -> None:
        self.n = n_processes

    @staticmethod
    def detect() -> bool:
        """Whether Fabric may choose this by itself."""
        return False

    def world_size(self) -> int:
        """How many processes there are taken to be."""
        return self.n

    def global_rank(self) -> int:
        """The number of this process: among all, on its machine, and its machine's."""
        return 0

    local_rank = node_rank = global_rank

    def set_world_size(self, size: int) -> None:
        """Fabric says how many it counts; that is known."""

    def set_global_rank(self, rank: int) -> None:
        """Fabric says which one it counts this as; that is known."""


@contextlib.contextmanager
def rehearse(n_processes: int) -> Iterator[Traffic]:
    """Within this, be the first of so many processes; gives what it would receive.

    >>> with rehearse(4) as traffic:
    ...     rows = torch.empty(8, 3)
    ...     dist.all_gather_into_tensor(rows, torch.ones(2, 3))
    >>> traffic.n_bytes["all-gather"]  # of three others, six numbers each
    72
    """
    if n_processes == 1:
        yield Traffic()
        return
    if dist.is_initialized():
        raise SettingError(
            "A dry run plays one of the processes by itself, and here a process group "
            "is running already: start it alone, with --machine.devices and "
            "--machine.nodes as the run will have them."
        )
    if BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, make_group, devices=["cpu", "cuda"])
    RehearsalGroup.traffic.clear()
    store = dist.HashStore()
    try:
        dist.init_process_group(BACKEND, store=store, rank=0, world_size=n_processes)
        yield RehearsalGroup.traffic
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


@contextlib.contextmanager
def share_cores(devices: int) -> Iterator[None]:
    """Compute with as many threads as a process has beside others on this machine."""
    threads = torch.get_num_threads()
    if devices > 1 and "OMP_NUM_THREADS" not in os.environ:  # as Fabric does
        torch.set_num_threads(max(usable_cores() // devices, 1))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def missing_devices(machine: Machine, device: torch.device) -> str:
    """What this machine lacks for the run itself, in a sentence; empty for nothing."""
    here, what = usable_cores(), "core"
    if device.type == "cuda":
        here, what = torch.cuda.device_count(), "GPU"
    if (machine.devices or 1) <= here:
        return ""
    return (
        f"this machine has {count(here, what)} and the run takes {machine.devices}: "
        "start it on one that has them"
    )
