"""Rows of all processes, and which of them are this process's share.

The convention, in one place. A loss over processes is one number, that of all rows, and
every process has it. Each process has rows of its own; data-parallel training averages
the processes' parameter gradients. So whatever takes a process's own rows to all of
them multiplies the gradient on its way back by the number P of processes: of a loss L a
process gets P dL/d(own rows), and the average over processes is the gradient of L, as
if one process had the whole batch. A parameter inside the loss (a learned temperature,
a prototype) is no row: every process gets the whole of its gradient.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from jaxtyping import Int, Shaped
from torch import Tensor

from ..checked_rows import may_look
from ..devices import free_bytes
from ..errors import ShapeError

# Rows that take less are gathered without asking every process for its free memory;
# more of them circulate where that is less than so many copies of them.
GATHERED_FREELY = 2**30
COPIES = 4

# Processes tell one another a dtype by its place in here.
DTYPES = tuple(dict.fromkeys(x for x in vars(torch).values() if type(x) is torch.dtype))


class Share(NamedTuple):
    """How the rows of a batch are shared out: every process's stand together."""

    sizes: tuple[int, ...]
    """How many rows each process has."""
    rank: int
    """Which of the processes this is."""
    ring: bool = False
    """Whether rows circulate among the processes instead of being gathered."""

    @property
    def n_processes(self) -> int:
        """How many there are."""
        return len(self.sizes)

    @property
    def total(self) -> int:
        """Rows of all processes."""
        return sum(self.sizes)

    @property
    def own_rows(self) -> slice:
        """Where this process's rows are among all."""
        return self.rows_of(self.rank)

    def rows_of(self, rank: int) -> slice:
        """Where a process's rows are among all.

        >>> Share((3, 2), rank=0).rows_of(1)
        slice(3, 5, None)
        """
        start = sum(self.sizes[:rank])
        return slice(start, start + self.sizes[rank])

    def __str__(self) -> str:
        how = "circulate" if self.ring else "are gathered once"
        return (
            f"process {self.rank} computes its {self.sizes[self.rank]:,} of "
            f"{self.total:,} rows, those of the other {self.n_processes - 1} {how}"
        )

    def repeat(self, n_views: int) -> "Share":
        """Of several views, where a process has its rows of all of them together."""
        return self._replace(sizes=tuple(n_views * n for n in self.sizes))


def share_rows(
    x: Shaped[Tensor, "n ..."], *, equal: bool = False, ring: bool = False
) -> Share | None:
    """How the rows of all processes are shared out; None where there is one process.

    Args:
        x: This process's rows; the other axes are alike on all processes.
        equal: Whether every process is known to have as many rows. Otherwise their
            numbers are exchanged first, which on a GPU is a wait for the device. On a
            CPU they are exchanged all the same, and refused if they differ.
        ring: Whether rows are to circulate: for more than fit into memory at once.
    """
    if not has_company():
        return None
    n_processes = dist.get_world_size()
    asked = not equal or may_look(x)
    sizes = _exchange_sizes(x, n_processes) if asked else [len(x)] * n_processes
    if equal and len({*sizes}) > 1:
        raise ShapeError(
            'gather="equal", or equal=True, says that all processes have as many rows: '
            f"they have {_list(sizes)}. Pass gather=True, or leave out equal."
        )
    return Share(tuple(sizes), dist.get_rank(), ring)


def let_fit(share: Share, x: Tensor) -> Share:
    """The share with rows that circulate, where all of them would not fit."""
    n_bytes = share.total * math.prod(x.shape[1:]) * x.element_size()
    if share.ring or n_bytes < GATHERED_FREELY:
        return share
    room = free_bytes(x.device)
    room = room // share.n_processes if x.device.type == "cpu" else room
    least = torch.tensor(room, device=x.device)
    dist.all_reduce(least, dist.ReduceOp.MIN)  # all must come to one decision
    return share._replace(ring=COPIES * n_bytes > int(least))


def number_rows(x: Shaped[Tensor, "n ..."], share: Share | None) -> Int[Tensor, " n"]:
    """0, 1, 2, ...; over processes they go on where those of the process before end.

    >>> number_rows(torch.ones(3, 2), None)
    tensor([0, 1, 2])
    """
    start = 0 if share is None else share.own_rows.start
    return torch.arange(start, start + len(x), device=x.device)


def has_company() -> bool:
    """Whether this process is one of several."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _exchange_sizes(x: Tensor, n_processes: int) -> list[int]:
    """How many rows every process has; raises on all of them if the rows differ."""
    shape = [len(x), math.prod(x.shape[1:]), DTYPES.index(x.dtype)]
    header = torch.tensor(shape, device=x.device)
    each = header.new_empty(n_processes * len(header))
    dist.all_gather_into_tensor(each, header)
    sizes, widths, places = each.view(n_processes, -1).T.tolist()
    if len({*widths}) > 1:
        raise ShapeError(
            "The rows of all processes need one width: theirs have "
            f"{_list(widths)} numbers each."
        )
    if len({*places}) > 1:
        raise ShapeError(
            "The rows of all processes need one dtype: theirs are "
            f"{_list([DTYPES[place] for place in places])}."
        )
    return sizes


def _list(each: Sequence[Any]) -> str:
    """What every process has, in their order."""
    return f"{', '.join(map(str, each))} (process 0 first)"


# ---------------------------------------------------------------- rows to all rows


def gather_rows(
    x: Shaped[Tensor, "n ..."], *, equal: bool = False, share: Share | None = None
) -> Shaped[Tensor, "m ..."]:
    """The rows of every process one after another; x itself where there is one.

    Differentiable and exact: compute the loss of all rows on every process, and average
    the parameters' gradients over the processes, as DistributedDataParallel does. The
    gradient of a process's own rows is multiplied by the number of processes, so that
    the average is the gradient of the loss of the whole batch. Without that averaging
    (one process alone taking the step, or gradients added up) divide by their number.

    Args:
        x: This process's rows; the other axes are alike on all processes.
        equal: As for ``share_rows``.
        share: How they are shared out, if that is known.

    >>> gather_rows(torch.eye(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    share = share_rows(x, equal=equal) if share is None else share
    return x if share is None else _Gather.apply(x, share)


gather = gather_rows  # its first name


def gather_last(
    x: Shaped[Tensor, "*k n"], share: Share | None
) -> Shaped[Tensor, "*k m"]:
    """``gather_rows`` along the last axis, for one number per row; x if alone."""
    if share is None:
        return x
    return gather_rows(x.movedim(-1, 0), share=share).movedim(0, -1)


def split_views(
    x: Shaped[Tensor, "*k m"], n_views: int, share: Share | None
) -> Shaped[Tensor, "*k v n"]:
    """One number per row of several views, ``share.repeat``, with an axis of views."""
    if share is None:
        return x.unflatten(-1, (n_views, -1))
    parts = x.split([n_views * n for n in share.sizes], -1)
    return torch.cat(
        [p.unflatten(-1, (n_views, p.shape[-1] // n_views)) for p in parts], -1
    )


def take_whole_gradient(parameter: Any, share: Share | None) -> Any:
    """A parameter that is about to meet own rows: itself, with its whole gradient.

    What comes back from this process's rows alone, P times, is averaged.
    """
    if share is None or not isinstance(parameter, Tensor):
        return parameter
    return _Average.apply(parameter)


def add_up(x: Shaped[Tensor, "..."], share: Share | None) -> Shaped[Tensor, "..."]:
    """The sum over processes of what each made of its own rows; x if alone."""
    return x if share is None else _Sum.apply(x)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, share: Share) -> Tensor:
        ctx.share = share
        return gather_all(x, share)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[ctx.share.own_rows] * ctx.share.n_processes, None


class _Average(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return sum_over_processes(gradient) / dist.get_world_size()


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return sum_over_processes(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # own rows have their part in every process's numbers; each comes back P times
        return sum_over_processes(gradient)


# ---------------------------------------------------------------- without gradient


def gather_all(x: Tensor, share: Share) -> Tensor:
    """The rows of every process one after another."""
    most, n = max(share.sizes), share.n_processes
    equal = min(share.sizes) == most
    if len(x) < most:  # processes exchange blocks of one size
        x = torch.cat([x, x.new_zeros(most - len(x), *x.shape[1:])])
    everything = x.new_empty(n * most, *x.shape[1:])
    dist.all_gather_into_tensor(everything, x.contiguous())
    if equal:
        return everything
    parts = zip(everything.split(most), share.sizes, strict=True)
    return torch.cat([part[:size] for part, size in parts])


def sum_over_processes(x: Tensor) -> Tensor:
    """The sum of what all processes have."""
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x)
    return x


def log_sum_over_processes(x: Tensor, *, moderate: bool = False) -> Tensor:
    """Log of the sum of exp(x) over what all processes have; -inf is nothing.

    Of ``moderate`` numbers no exponential overflows, so none is subtracted.
    """
    if moderate:
        terms = x.exp()
        dist.all_reduce(terms)
        return terms.log_()
    top = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(top, dist.ReduceOp.MAX)
    top.masked_fill_(top == -torch.inf, 0.0)
    return sum_over_processes((x - top).exp_()).log_().add_(top)


class Coming(NamedTuple):
    """Tensors on their way from the process after this one."""

    tensors: list[Tensor | None]
    requests: list[Any]
    leaving: list[Tensor | None]  # held until they have left

    def receive(self) -> list[Tensor | None]:
        """Wait for them."""
        for request in self.requests:
            request.wait()
        return self.tensors


def pass_on(tensors: Sequence[Tensor | None], share: Share, hop: int) -> Coming:
    """Send what arrived at the last hop to the process before, receive in its place.

    Args:
        tensors: At the first hop this process's own.
        share: How many rows each process has.
        hop: How far away those are whose tensors are coming.
    """
    rank, world = share.rank, share.n_processes
    n = share.sizes[(rank + hop) % world]
    leaving = [None if x is None else x.contiguous() for x in tensors]
    coming = [None if x is None else x.new_empty(n, *x.shape[1:]) for x in tensors]
    operations = []
    for out, into in zip(leaving, coming, strict=True):
        if out is not None and len(out):
            operations.append(dist.P2POp(dist.isend, out, (rank - 1) % world))
        if into is not None and len(into):
            operations.append(dist.P2POp(dist.irecv, into, (rank + 1) % world))
    requests = dist.batch_isend_irecv(operations) if operations else []
    return Coming(coming, requests, leaving)


def circulate(
    coming: Coming, share: Share, n_hops: int
) -> Iterator[list[Tensor | None]]:
    """The tensors of the processes after this one, the nearest first.

    Every process passes on what it was sent and computes while that goes on: two blocks
    are in memory at any time.
    """
    for hop in range(1, n_hops + 1):
        held = coming.receive()
        if hop < n_hops:
            coming = pass_on(held, share, hop + 1)
        yield held


def from_first_process(x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """What the first process has, on all of them: for results that may differ."""
    if has_company():
        x = x.contiguous()
        dist.broadcast(x, src=0)
    return x
