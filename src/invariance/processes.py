"""One command in several processes: who they are, and how they share work out.

torchrun, or ``--devices N`` of a command, starts the same command several times and
says in the environment which is which. Work is shared out in contiguous shares, so that
results put one after another are in the order of one process. What is exchanged goes
through the CPU: features and scores, which are small beside the work they come from.
"""

import atexit
import contextlib
import itertools
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from .devices import choose_device, usable_cores
from .errors import InvarianceError, SettingError

if TYPE_CHECKING:
    import torch

S = TypeVar("S")
T = TypeVar("T")
END_SECONDS = 60
PATIENCE = timedelta(days=7)  # one may score for long while the others wait


@dataclass(frozen=True)
class Processes:
    """All processes of a command, as one of them sees them.

    >>> Processes().share(10), Processes(1, 3).share(10)
    (slice(0, 10, None), slice(3, 6, None))
    """

    rank: int = 0
    """This one, counted from 0."""
    count: int = 1
    group: Any = None
    """What they exchange through; None is the one that all of them started with."""

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def share(self, n: int) -> slice:
        """Which of n things are this one's."""
        return self.shares(n)[self.rank]

    def shares(self, n: int) -> list[slice]:
        """The things of each process, as even as can be."""
        ends = [k * n // self.count for k in range(self.count + 1)]
        return [slice(*span) for span in itertools.pairwise(ends)]

    def decide(self, function: Callable[[], T]) -> T:
        """What a function gives in the first process; its error is everybody's."""
        if self.count == 1:
            return function()
        import torch.distributed as dist

        answer: list[Any] = [None, None]
        if self.first:
            try:
                answer[0] = function()
            except InvarianceError as error:
                answer[1] = error
        with wait_if_left_alone():
            dist.broadcast_object_list(answer, src=0, group=self.group)
        if answer[1] is not None:
            raise answer[1]
        return answer[0]

    def collect(self, value: T) -> list[T]:
        """What every process has, in their order, in all of them."""
        if self.count == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.count
        with wait_if_left_alone():
            dist.all_gather_object(values, value, group=self.group)
        return values

    def collect_rows(
        self, rows: "torch.Tensor | None", sizes: Sequence[int]
    ) -> "torch.Tensor":
        """The rows of every process one after another, in all of them.

        Args:
            rows: this one's, float32 on the CPU; None where it has none.
            sizes: how many each process has.
        """
        import torch

        if self.count == 1:
            return torch.empty(0, 0) if rows is None else rows
        import torch.distributed as dist

        width = max(self.collect(0 if rows is None else rows.shape[1]))
        whole = torch.empty(sum(sizes), width)
        for source, share in enumerate(whole.split(list(sizes))):
            if rows is not None and source == self.rank:
                share.copy_(rows)
            if len(share):
                with wait_if_left_alone():
                    dist.broadcast(share, src=source, group=self.group)
        return whole

    def copy_first(self, module: "torch.nn.Module | None") -> None:
        """Give a module the weights that it has in the first process."""
        if self.count == 1 or module is None:
            return
        import torch
        import torch.distributed as dist

        for value in module.state_dict().values():
            if isinstance(value, torch.Tensor):
                sent = value.detach().cpu().contiguous()
                data = sent.flatten().view(torch.uint8)  # gloo refuses some kinds
                with wait_if_left_alone():
                    dist.broadcast(data, src=0, group=self.group)
                value.copy_(sent)

    def deal(self, function: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        """A function of every item, in their order; they are dealt out like cards."""
        if self.count == 1:
            yield from map(function, items)
            return
        parts = self.collect([function(x) for x in items[self.rank :: self.count]])
        for k in range(len(items)):
            yield parts[k % self.count][k // self.count]

    def choose_device(
        self, name: str, auto: tuple[str, ...] = ("cuda", "mps")
    ) -> "torch.device":
        """A device of this process's own; more processes than devices are refused."""
        import torch

        device = choose_device(name, auto=auto)
        n_here = int(os.environ.get("LOCAL_WORLD_SIZE", self.count))
        local = int(os.environ.get("LOCAL_RANK", self.rank % n_here))
        if self.count == 1:
            return device
        if device.index is not None or device.type == "mps":
            raise SettingError(
                f"{n_here} processes cannot share {device}: use --device cuda or "
                "--device cpu, and each gets its own."
            )
        if device.type != "cuda":
            return device
        if n_here > (most := torch.cuda.device_count()):
            raise SettingError(
                f"devices is one process per GPU, but this machine has {most}: got "
                f"{n_here}. Use --devices {most} or less, or --device cpu."
            )
        return torch.device("cuda", local)


ALONE = Processes()
GROUPS: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()
"""The group that exchanges through the CPU, by the one that all started with."""


def join_processes() -> Processes:
    """The processes of training, of torchrun or of ``--devices``; one alone is alone.

    All of them call this, the same number of times.
    """
    import torch.distributed as dist

    if not dist.is_available():
        return ALONE
    if dist.is_initialized():
        world, count = dist.group.WORLD, dist.get_world_size()
        if count > 1 and world not in GROUPS:
            GROUPS[world] = dist.new_group(backend="gloo", timeout=PATIENCE)
        return Processes(dist.get_rank(), count, GROUPS.get(world))
    if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
        return ALONE
    dist.init_process_group("gloo", timeout=PATIENCE)
    atexit.register(dist.destroy_process_group)  # its threads may not outlive Python
    return Processes(dist.get_rank(), dist.get_world_size())


@contextlib.contextmanager
def wait_if_left_alone() -> Iterator[None]:
    """Where another process has ended, whoever started them says why and ends all."""
    try:
        yield
    except RuntimeError as cause:
        time.sleep(END_SECONDS)
        raise InvarianceError(
            f"Another process of this command has ended ({str(cause)[:120]})."
        ) from None


def share_cores(count: int) -> int:
    """Cores of each of so many processes."""
    return max(usable_cores() // count, 1)
