"""How many processes read samples, and how much travels from them at once.

Pillow holds the interpreter for a good part of a small image, so threads wait for each
other where processes do not. There is one process per core unless memory is short:
each holds about WORKER_BYTES of its own, and the pieces on their way from it lie in
shared memory, of which a container may have only 64 MiB. A piece is a few samples, so
that all processes work on the same batch and the first is not waited for long.
"""

import contextlib
import multiprocessing
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..devices import format_bytes, free_bytes, usable_cores
from ..errors import DataError
from ..words import count

if TYPE_CHECKING:
    from torch import Tensor

WORKER_BYTES = 256 << 20
PIECE_BYTES = 1 << 20
MOST_IN_A_PIECE = 256
SHARED_MEMORY = "/dev/shm"
LOSSES = ("DataLoader worker", "Pin memory thread")  # in torch's words


def piece_size(n_bytes: int) -> int:
    """How many samples of so many bytes travel together.

    >>> piece_size(3 * 32 * 32), piece_size(3 * 224 * 224), piece_size(3 * 900 * 900)
    (256, 6, 1)
    """
    return min(max(PIECE_BYTES // n_bytes, 1), MOST_IN_A_PIECE)


def choose_workers(asked: int | None, n_bytes: int) -> tuple[int, str]:
    """How many processes to read with, and why fewer than asked for or than cores."""
    wanted = usable_cores() if asked is None else asked
    host, shared = free_bytes("cpu"), free_shared_bytes()
    most = max(1, min(host // 2 // WORKER_BYTES, shared // (2 * piece_bytes(n_bytes))))
    if wanted <= most:
        return wanted, ""
    return most, (
        f"{count(most, 'process', 'processes')} instead of {wanted} will read the "
        f"data: there are {format_bytes(host)} of free memory, "
        f"{format_bytes(2 * shared)} of it shared."
    )


def piece_bytes(n_bytes: int) -> int:
    """What a piece of samples takes."""
    return piece_size(n_bytes) * n_bytes


def free_shared_bytes() -> int:
    """How much of the shared memory samples may take: half of what is free."""
    try:
        return shutil.disk_usage(SHARED_MEMORY).free // 2
    except OSError:  # where there is no such place, shared memory is memory
        return free_bytes("cpu") // 2


def may_fork() -> bool:
    """Whether a process can be made here at once, and from any script.

    Elsewhere each would import everything again, and run a script without a main guard.
    """
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def read_pieces(
    dataset: Any,
    sampler: Any,
    *,
    workers: int,
    ahead: int = 2,
    pin_memory: bool = False,
) -> Iterator[Any]:
    """What the data set gives for each entry of the sampler, in order.

    Args:
        dataset: Answers a list of numbers, or what else the sampler has.
        sampler: What to ask for.
        workers: Processes that read; 0 reads in this one.
        ahead: Pieces that each process may have finished or begun.
        pin_memory: Whether the pieces are on their way to a GPU.
    """
    import torch  # late: processes are also counted where torch is not loaded

    # torch warns of more workers than cores, which somebody wants
    with warnings.catch_warnings(), keep_child_handler():
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        pieces = iter(
            torch.utils.data.DataLoader(
                dataset,
                sampler=sampler,
                batch_size=None,  # the data set answers with whole pieces
                collate_fn=share if workers else keep,
                num_workers=workers,
                pin_memory=pin_memory,
                prefetch_factor=ahead if workers else None,
                multiprocessing_context="fork" if workers and may_fork() else None,
                generator=torch.Generator(),  # not torch's: training draws from that
            )
        )
    return explain_lost_pieces(pieces) if workers else pieces


@contextlib.contextmanager
def keep_child_handler() -> Iterator[None]:
    """Take back what torch would do as soon as a process that reads is killed.

    It raises then, wherever this process is. Without, the loss is met where a piece is
    waited for, five seconds later at most, and can be said in a sentence.
    """
    number = getattr(signal, "SIGCHLD", None)  # Windows has none
    before = None if number is None else signal.getsignal(number)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if number is not None and before is not None and is_main:
            signal.signal(number, before)


def place(piece: "Tensor", whole: "Tensor", rows: Any) -> None:
    """Copy a piece to its rows of a tensor in memory, by this thread alone.

    torch would share each of thousands of small copies out to all cores, and wait for
    the last of them: they are busy reading.
    """
    import torch

    # numpy, which copies by one thread, has no bfloat16: bits will do
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = sizes.get(piece.itemsize, piece.dtype)
    whole.view(bits).numpy()[rows] = piece.view(bits).numpy()


def explain_lost_pieces(pieces: Iterator[Any]) -> Iterator[Any]:
    """The same pieces, and a sentence where one, or who reads them, is gone."""
    try:
        for piece in pieces:
            if piece is None:
                raise DataError(
                    f"There is no room in {SHARED_MEMORY}, through which the "
                    "processes that read the data pass samples on: free some, give a "
                    "container more (docker run --shm-size), or read streamed "
                    "samples with --workers 0."
                )
            yield piece
    except (RuntimeError, ConnectionError, EOFError) as error:
        # the last two come from a process that torch does not know to be gone yet; with
        # a GPU they end a thread of torch's instead, which pins what processes send
        of_torch = type(error) is RuntimeError and str(error).startswith(LOSSES)
        if isinstance(error, RuntimeError) and not of_torch:
            raise
        raise DataError(
            "A process that reads the data was killed, most likely because memory "
            "ran out: free some, use a smaller --image-size or, of streamed samples, "
            "fewer --workers."
        ) from None


def keep(piece: Any) -> Any:
    """The piece as it is; a function, as a started process imports it by its name."""
    return piece


def share(piece: Any) -> Any:
    """The piece with its tensors in shared memory; None where there is no room.

    torch would put them there later, in a thread whose failure nobody hears of, and
    wait for the piece forever.
    """
    try:
        for part in piece:
            for tensor in part if isinstance(part, list) else [part]:
                if hasattr(tensor, "share_memory_"):
                    tensor.share_memory_()
    except RuntimeError:
        return None
    return piece
